#include "pare/data/augment.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "pare/data/image.h"
#include "pare/error.h"

namespace pare {

namespace {

void check_augmentable(const at::Tensor& images, const std::vector<ImageAugmentation>& drawn) {
  const bool pixels = images.scalar_type() == at::kByte || images.scalar_type() == at::kFloat;
  if (images.dim() != 4 || !pixels || !images.is_contiguous() || images.size(0) != static_cast<int64_t>(drawn.size()))
    throw Error(ErrorKind::shape, "augment",
                "{} drawings for images of {} {}, expected contiguous uint8 or float32 [N, C, H, W]", drawn.size(),
                c10::toString(images.scalar_type()), fmt::join(images.sizes(), "x"));
}

// Calls `use` with a value of the images' element type.
template <typename Use>
at::Tensor by_element(const at::Tensor& images, Use use) {
  return images.scalar_type() == at::kByte ? use(uint8_t{}) : use(float{});
}

// As torchvision's RandomResizedCrop: ten tries, then the largest centred box within the aspects.
Box draw_resized_crop(const AugmentOptions& options, int64_t height, int64_t width, Random& random) {
  const auto area = static_cast<double>(height * width);
  const double low = std::log(options.min_aspect), high = std::log(options.max_aspect);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * (options.min_area + (options.max_area - options.min_area) * random.uniform());
    const double aspect = std::exp(low + (high - low) * random.uniform());
    const int64_t w = std::llround(std::sqrt(target * aspect)), h = std::llround(std::sqrt(target / aspect));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const int64_t top = random.below(height - h + 1);
    return {top, random.below(width - w + 1), h, w};
  }
  const double aspect = static_cast<double>(width) / static_cast<double>(height);
  int64_t w = width, h = height;
  if (aspect < options.min_aspect) h = std::clamp<int64_t>(std::llround(width / options.min_aspect), 1, height);
  if (aspect > options.max_aspect) w = std::clamp<int64_t>(std::llround(height * options.max_aspect), 1, width);
  return {(height - h) / 2, (width - w) / 2, h, w};
}

int64_t parse_augment_number(std::string_view text, std::string_view part) {
  int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || value < 1 || value > 4096)
    throw Error(ErrorKind::usage, "augment", "\"{}\": expected a number of pixels after the colon", part);
  return value;
}

void parse_augment_part(std::string_view part, AugmentOptions& out) {
  const size_t colon = part.find(':');
  const std::string_view name = part.substr(0, colon);
  const bool number = colon != std::string_view::npos;
  if (name == "crop")
    out.pad = number ? parse_augment_number(part.substr(colon + 1), part) : 4;
  else if (name == "cutout")
    out.cutout = number ? parse_augment_number(part.substr(colon + 1), part) : 16;
  else if (part == "flip")
    out.flip = true;
  else if (part == "resized-crop")
    out.resized_crop = true;
  else if (part == "standard")
    out.flip = true, out.pad = 4;
  else
    throw Error(ErrorKind::usage, "augment",
                "\"{}\" is not one of none, standard, flip, crop[:PIXELS], resized-crop, cutout[:SIDE]", part);
}

}  // namespace

AugmentOptions parse_augment(std::string_view text) {
  AugmentOptions out;
  if (text.empty() || text == "none") return out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parse_augment_part(text.substr(begin, end - begin), out);
    begin = end + 1;
  }
  if (out.pad > 0 && out.resized_crop)
    throw Error(ErrorKind::usage, "augment", "crop and resized-crop exclude each other");
  return out;
}

std::vector<ImageAugmentation> draw_augmentations(const AugmentOptions& options, int64_t count, int64_t height,
                                                  int64_t width, Random& random, std::span<const ImageExtents> full) {
  std::vector<ImageAugmentation> drawn(static_cast<size_t>(count));
  for (size_t i = 0; i < drawn.size(); ++i) {
    auto& one = drawn[i];
    one.crop = {0, 0, height, width};
    if (options.resized_crop) {
      const ImageExtents extents = full.empty() ? ImageExtents{0, height, width} : full[i];
      one.crop = draw_resized_crop(options, extents.height, extents.width, random);
    } else if (options.pad > 0) {
      one.crop.top = random.below(2 * options.pad + 1);
      one.crop.left = random.below(2 * options.pad + 1);
    }
    if (options.flip) one.flip = random.coin();
    if (options.cutout > 0) {
      one.cut_y = random.below(height);
      one.cut_x = random.below(width);
    }
  }
  return drawn;
}

namespace {

template <typename Element>
at::Tensor pad_and_crop_elements(const at::Tensor& images, int64_t pad, const std::vector<ImageAugmentation>& drawn) {
  const int64_t channels = images.size(1), height = images.size(2), width = images.size(3);
  auto result = at::zeros(images.sizes(), images.options());
  const auto* in = images.data_ptr<Element>();
  auto* out = result.data_ptr<Element>();
  for (const auto& one : drawn) {
    const int64_t dy = one.crop.top - pad, dx = one.crop.left - pad;  // out(y, x) = in(y + dy, x + dx), or zero
    const int64_t from = std::clamp<int64_t>(-dx, 0, width), to = std::clamp<int64_t>(width - dx, from, width);
    for (int64_t c = 0; c < channels; ++c, in += height * width)
      for (int64_t y = 0; y < height; ++y, out += width)
        if (y + dy >= 0 && y + dy < height && from < to)
          std::copy_n(in + (y + dy) * width + from + dx, to - from, out + from);
  }
  return result;
}

}  // namespace

at::Tensor pad_and_crop(const at::Tensor& images, int64_t pad, const std::vector<ImageAugmentation>& drawn) {
  check_augmentable(images, drawn);
  return by_element(images, [&](auto element) { return pad_and_crop_elements<decltype(element)>(images, pad, drawn); });
}

namespace {

at::Tensor box_of(const at::Tensor& image, const Box& box) {
  return image.slice(1, box.top, box.top + box.height).slice(2, box.left, box.left + box.width);
}

}  // namespace

at::Tensor resized_crop(std::span<const PictureFile* const> files, const std::vector<ImageAugmentation>& drawn,
                        const ImageExtents& extents) {
  auto result =
      at::empty({static_cast<int64_t>(files.size()), extents.channels, extents.height, extents.width}, at::kByte);
  for (size_t i = 0; i < files.size(); ++i) {
    const auto picture =
        read_image(files[i]->path, {.color = extents.channels == 1 ? ImageColor::gray : ImageColor::rgb});
    if (picture.size(1) != files[i]->extents.height || picture.size(2) != files[i]->extents.width)
      throw Error(ErrorKind::file, files[i]->path.string(), "has changed since it was read");
    result[static_cast<int64_t>(i)].copy_(
        resize_bilinear(box_of(picture, drawn[i].crop), extents.height, extents.width));
  }
  return result;
}

at::Tensor resized_crop(const at::Tensor& images, const std::vector<ImageAugmentation>& drawn) {
  check_augmentable(images, drawn);
  if (images.scalar_type() != at::kByte)
    throw Error(ErrorKind::usage, OptionName{"augment"}, "resized-crop scales pictures of bytes, not numbers");
  const int64_t height = images.size(2), width = images.size(3), size = images.size(1) * height * width;
  auto result = at::empty(images.sizes(), at::kByte);
  for (size_t i = 0; i < drawn.size(); ++i) {
    const auto scaled = resize_bilinear(box_of(images[static_cast<int64_t>(i)], drawn[i].crop), height, width);
    std::memcpy(result.data_ptr<uint8_t>() + static_cast<int64_t>(i) * size, scaled.data_ptr<uint8_t>(),
                static_cast<size_t>(size));
  }
  return result;
}

namespace {

template <typename Element>
at::Tensor flip_elements(const at::Tensor& images, const std::vector<ImageAugmentation>& drawn) {
  const int64_t rows = images.size(1) * images.size(2), width = images.size(3);
  auto result = at::empty(images.sizes(), images.options());
  const auto* in = images.data_ptr<Element>();
  auto* out = result.data_ptr<Element>();
  for (const auto& one : drawn) {
    if (one.flip) {
      for (int64_t row = 0; row < rows; ++row)
        std::reverse_copy(in + row * width, in + (row + 1) * width, out + row * width);
    } else {
      std::copy(in, in + rows * width, out);
    }
    in += rows * width;
    out += rows * width;
  }
  return result;
}

template <typename Element>
at::Tensor cut_elements(const at::Tensor& images, int64_t side, const std::vector<ImageAugmentation>& drawn,
                        const std::vector<uint8_t>& fill) {
  const int64_t channels = images.size(1), height = images.size(2), width = images.size(3);
  auto result = images.clone();
  auto* out = result.data_ptr<Element>();
  for (const auto& one : drawn) {
    const int64_t top = std::max<int64_t>(one.cut_y - side / 2, 0), left = std::max<int64_t>(one.cut_x - side / 2, 0);
    const int64_t bottom = std::min(one.cut_y - side / 2 + side, height);
    const int64_t right = std::min(one.cut_x - side / 2 + side, width);
    for (int64_t c = 0; c < channels; ++c, out += height * width)
      for (int64_t y = top; y < bottom; ++y)
        std::fill(out + y * width + left, out + y * width + right, static_cast<Element>(fill[static_cast<size_t>(c)]));
  }
  return result;
}

}  // namespace

at::Tensor flip_horizontally(const at::Tensor& images, const std::vector<ImageAugmentation>& drawn) {
  check_augmentable(images, drawn);
  return by_element(images, [&](auto element) { return flip_elements<decltype(element)>(images, drawn); });
}

at::Tensor cut_out(const at::Tensor& images, int64_t side, const std::vector<ImageAugmentation>& drawn,
                   const std::vector<uint8_t>& fill) {
  check_augmentable(images, drawn);
  if (static_cast<int64_t>(fill.size()) != images.size(1))
    throw Error(ErrorKind::shape, "augment", "{} fill bytes for {} channels", fill.size(), images.size(1));
  return by_element(images, [&](auto element) { return cut_elements<decltype(element)>(images, side, drawn, fill); });
}

at::Tensor augmented(const at::Tensor& images, const AugmentOptions& options,
                     const std::vector<ImageAugmentation>& drawn, const std::vector<uint8_t>& fill) {
  auto result = images;
  if (options.resized_crop)
    result = resized_crop(result, drawn);
  else if (options.pad > 0)
    result = pad_and_crop(result, options.pad, drawn);
  if (options.flip) result = flip_horizontally(result, drawn);
  if (options.cutout > 0) result = cut_out(result, options.cutout, drawn, fill);
  return result;
}

at::Tensor augment(const at::Tensor& images, const AugmentOptions& options, const std::vector<uint8_t>& fill,
                   Random& random) {
  const auto drawn = draw_augmentations(options, images.size(0), images.size(2), images.size(3), random);
  return augmented(images, options, drawn, fill);
}

}  // namespace pare
