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
constexpr FitName kFits[] = {
    {ImageFit::stretch, "stretch"}, {ImageFit::crop, "crop"}, {ImageFit::imagenet, "imagenet"}};

// The last two axes, cut to `size` from (top, left) on.
at::Tensor cut(const at::Tensor& image, int64_t top, int64_t left, PictureSize size) {
  return image.slice(-2, top, top + size.height).slice(-1, left, left + size.width);
}

// The largest box in the centre that has the proportions of `size`.
at::Tensor centre_of(const at::Tensor& image, PictureSize size) {
  const int64_t h = image.size(-2), w = image.size(-1);
  PictureSize box{.height = h, .width = w};
  if (h * size.width >= w * size.height)
    box.height = std::max<int64_t>(1, w * size.height / size.width);
  else
    box.width = std::max<int64_t>(1, h * size.width / size.height);
  return cut(image, (h - box.height) / 2, (w - box.width) / 2, box);
}

using Resize = std::function<at::Tensor(const at::Tensor& image, int64_t height, int64_t width)>;

// Halves go to the even neighbour, as Python rounds.
int64_t centred(int64_t extent, int64_t part) {
  const int64_t rest = extent - part, half = rest / 2;
  return half + (rest % 2 == 1 && half % 2 == 1 ? 1 : 0);
}

at::Tensor resize_and_crop(const at::Tensor& image, PictureSize size, const Resize& resize) {
  const int64_t h = image.size(-2), w = image.size(-1);
  const auto enlarged = [](int64_t side) { return (256 * side + 112) / 224; };
  const int64_t tall = enlarged(size.height), wide = enlarged(size.width);
  const bool by_height = tall * w >= wide * h;  // then the width is at least `wide`
  const at::Tensor scaled = by_height ? resize(image, tall, tall * w / h) : resize(image, wide * h / w, wide);
  return cut(scaled, centred(scaled.size(-2), size.height), centred(scaled.size(-1), size.width), size).contiguous();
}

at::Tensor fitted(const at::Tensor& image, PictureSize size, ImageFit fit, const Resize& resize) {
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
  return fitted(image, size, fit, resize_bilinear);
}

at::Tensor fit_mask(const at::Tensor& mask, PictureSize size, ImageFit fit) {
  return fitted(mask, size, fit, resize_nearest);
}

at::Tensor seen_part(const at::Tensor& image, PictureSize size, ImageFit fit) {
  if (fit == ImageFit::stretch) return image;
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
