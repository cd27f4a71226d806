#include "pare/data/preprocess.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>

#include "pare/data/image.h"
#include "pare/error.h"

namespace pare {

namespace {

struct FitName {
  ImageFit fit;
  const char* name;
};
constexpr FitName kFits[] = {{ImageFit::stretch, "stretch"},
                             {ImageFit::crop, "crop"},
                             {ImageFit::imagenet, "imagenet"},
                             {ImageFit::letterbox, "letterbox"}};

// The last two axes, cut to `size` from (top, left) on.
at::Tensor cut(const at::Tensor& image, int64_t top, int64_t left, PictureSize size) {
  return image.slice(-2, top, top + size.height).slice(-1, left, left + size.width);
}

// The largest box in the centre that has the proportions of `size`.
PictureSize centre_box(PictureSize from, PictureSize size) {
  const int64_t h = from.height, w = from.width;
  PictureSize box = from;
  if (h * size.width >= w * size.height)
    box.height = std::max<int64_t>(1, w * size.height / size.width);
  else
    box.width = std::max<int64_t>(1, h * size.width / size.height);
  return box;
}

at::Tensor centre_of(const at::Tensor& image, PictureSize size) {
  const PictureSize box = centre_box({image.size(-2), image.size(-1)}, size);
  return cut(image, (image.size(-2) - box.height) / 2, (image.size(-1) - box.width) / 2, box);
}

using Resize = std::function<at::Tensor(const at::Tensor& image, int64_t height, int64_t width)>;

// Halves go to the even neighbour, as Python rounds.
int64_t centred(int64_t extent, int64_t part) {
  const int64_t rest = extent - part, half = rest / 2;
  return half + (rest % 2 == 1 && half % 2 == 1 ? 1 : 0);
}

// Where an image goes: scaled to `scaled`, then `size` of it from `offset` on; a negative offset is a margin.
struct Placement {
  PictureSize scaled;
  int64_t top = 0, left = 0;
};

Placement letterboxed(PictureSize from, PictureSize size) {
  const bool by_height =
      size.height * from.width <= size.width * from.height;  // then the width is at most `size.width`
  const auto part = [](int64_t extent, int64_t of, int64_t whole) {
    return std::max<int64_t>(1, (2 * extent * of + whole) / (2 * whole));
  };
  Placement place{.scaled = size};
  if (by_height)
    place.scaled.width = part(from.width, size.height, from.height);
  else
    place.scaled.height = part(from.height, size.width, from.width);
  place.top = -((size.height - place.scaled.height) / 2);
  place.left = -((size.width - place.scaled.width) / 2);
  return place;
}

at::Tensor resize_and_pad(const at::Tensor& image, PictureSize size, const Resize& resize, int64_t fill) {
  const Placement place = letterboxed({image.size(-2), image.size(-1)}, size);
  std::vector<int64_t> shape = image.sizes().vec();
  shape[shape.size() - 2] = size.height;
  shape.back() = size.width;
  at::Tensor out = at::full(shape, fill, at::kByte);
  cut(out, -place.top, -place.left, place.scaled).copy_(resize(image, place.scaled.height, place.scaled.width));
  return out;
}

Placement enlarged(PictureSize from, PictureSize size) {
  const auto larger = [](int64_t side) { return (256 * side + 112) / 224; };
  const int64_t h = from.height, w = from.width, tall = larger(size.height), wide = larger(size.width);
  const bool by_height = tall * w >= wide * h;  // then the width is at least `wide`
  Placement place;
  place.scaled = by_height ? PictureSize{tall, tall * w / h} : PictureSize{wide * h / w, wide};
  place.top = centred(place.scaled.height, size.height);
  place.left = centred(place.scaled.width, size.width);
  return place;
}

at::Tensor resize_and_crop(const at::Tensor& image, PictureSize size, const Resize& resize) {
  const Placement place = enlarged({image.size(-2), image.size(-1)}, size);
  return cut(resize(image, place.scaled.height, place.scaled.width), place.top, place.left, size).contiguous();
}

at::Tensor fitted(const at::Tensor& image, PictureSize size, ImageFit fit, const Resize& resize, int64_t fill) {
  if (fit == ImageFit::letterbox) return resize_and_pad(image, size, resize, fill);
  if (fit == ImageFit::crop) return resize(centre_of(image, size), size.height, size.width);
  if (fit == ImageFit::imagenet) return resize_and_crop(image, size, resize);
  return resize(image, size.height, size.width);
}

}  // namespace

std::vector<std::string> image_fit_names() {
  std::vector<std::string> names;
  for (const auto& entry : kFits) names.emplace_back(entry.name);
  return names;
}

std::string to_string(ImageFit fit) {
  return std::find_if(std::begin(kFits), std::end(kFits), [&](const FitName& entry) { return entry.fit == fit; })->name;
}

ImageFit image_fit_of(const std::string& name) {
  for (const auto& entry : kFits)
    if (name == entry.name) return entry.fit;
  throw Error(ErrorKind::usage, OptionName{"preprocess"}, "'{}' is not one of {}", name,
              fmt::join(image_fit_names(), ", "));
}

ImageFit usual_fit(int64_t channels, int64_t height, int64_t width) {
  constexpr int64_t kPhotograph = 128;
  return channels == 3 && std::min(height, width) >= kPhotograph ? ImageFit::imagenet : ImageFit::crop;
}

at::Tensor fit_image(const at::Tensor& image, PictureSize size, ImageFit fit) {
  constexpr int64_t kGray = 114;
  return fitted(image, size, fit, resize_bilinear, kGray);
}

at::Tensor fit_mask(const at::Tensor& mask, PictureSize size, ImageFit fit) {
  constexpr int64_t kVoid = 255;
  return fitted(mask, size, fit, resize_nearest, kVoid);
}

at::Tensor fit_boxes(const at::Tensor& given, PictureSize from, PictureSize size, ImageFit fit) {
  const at::Tensor boxes = given.clone();
  // x' = scale x − offset along each axis.
  const auto along = [&](int64_t first, int64_t extent, int64_t scaled, int64_t of, int64_t offset) {
    for (const int64_t edge : {first, first + 2})
      boxes.select(1, edge).mul_(static_cast<double>(scaled) / static_cast<double>(of)).sub_(offset).clamp_(0, extent);
  };
  if (fit == ImageFit::crop) {
    const PictureSize box = centre_box(from, size);
    boxes.select(1, 0).sub_((from.width - box.width) / 2);
    boxes.select(1, 2).sub_((from.width - box.width) / 2);
    boxes.select(1, 1).sub_((from.height - box.height) / 2);
    boxes.select(1, 3).sub_((from.height - box.height) / 2);
    from = box;
  }
  Placement place{.scaled = size};
  if (fit == ImageFit::imagenet) place = enlarged(from, size);
  if (fit == ImageFit::letterbox) place = letterboxed(from, size);
  along(0, size.width, place.scaled.width, from.width, place.left);
  along(1, size.height, place.scaled.height, from.height, place.top);
  return boxes;
}

at::Tensor seen_part(const at::Tensor& image, PictureSize size, ImageFit fit) {
  if (fit == ImageFit::stretch) return image;
  if (fit == ImageFit::letterbox) return fit_image(image, size, fit);
  const at::Tensor box = centre_of(image, size);
  if (fit == ImageFit::crop) return box;
  const auto inner = [](int64_t extent) { return std::max<int64_t>(1, extent * 224 / 256); };
  const PictureSize kept{.height = inner(box.size(-2)), .width = inner(box.size(-1))};
  return cut(box, (box.size(-2) - kept.height) / 2, (box.size(-1) - kept.width) / 2, kept);
}

at::Tensor in_channels(const at::Tensor& picture, int64_t channels) {
  if (picture.size(0) == channels) return picture;
  if (channels == 3) return picture.expand({3, -1, -1});
  at::Tensor gray = picture.slice(0, 0, 1).to(at::kInt).mul_(19595);
  gray.add_(picture.slice(0, 1, 2), 38470).add_(picture.slice(0, 2, 3), 7471).add_(0x8000);
  return at::bitwise_right_shift(gray, 16).to(at::kByte);
}

at::Tensor resize_nearest(const at::Tensor& mask, int64_t height, int64_t width) {
  const auto places = [](int64_t from, int64_t to) {
    auto index = at::empty({to}, at::kLong);
    for (int64_t i = 0; i < to; ++i) index.data_ptr<int64_t>()[i] = (2 * i + 1) * from / (2 * to);
    return index;
  };
  return mask.index_select(0, places(mask.size(0), height)).index_select(1, places(mask.size(1), width));
}

}  // namespace pare
