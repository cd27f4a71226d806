// Images: PNG and JPEG in, PNG out. An image is a uint8 tensor [channels, height, width] with 1 (gray) or 3 (RGB)
// channels.
//
// Palettes and fewer than 8 bits are expanded, 16 bits are scaled to 8, an alpha channel is dropped (as PIL's
// convert("RGB") does), CMYK becomes RGB; gamma chunks, colour profiles and the EXIF orientation are ignored. Colour
// becomes gray by PIL's formula, L = 0.299 R + 0.587 G + 0.114 B. Files may be hostile: a broken, truncated or absurd
// one throws Error{format}, and no memory is taken that the size of the file could not honestly fill.
//
// All functions are pure and may be called from any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace pare {

enum class ImageColor {
  as_stored,  // 1 channel for a gray file, 3 for any other
  gray,       // always 1
  rgb,        // always 3
};

struct DecodeOptions {
  ImageColor color = ImageColor::as_stored;
  int64_t max_pixels = int64_t{1} << 28;  // a larger width x height throws before anything is decoded
};

// `where` names the bytes in errors. The format is told by the first bytes, not by a name.
at::Tensor decode_image(std::span<const std::byte> bytes, std::string_view where, const DecodeOptions& options = {});
at::Tensor read_image(const std::filesystem::path& path, const DecodeOptions& options = {});

// By the head of the file alone.
struct ImageExtents {
  int64_t channels = 0, height = 0, width = 0;
};
ImageExtents image_extents(const std::filesystem::path& path, const DecodeOptions& options = {});

// A uint8 image [C, H, W] with 1, 3 (RGB) or 4 (RGBA) channels, or [H, W].
std::string encode_png(const at::Tensor& image);
void write_png(const std::filesystem::path& path, const at::Tensor& image);  // whole or not at all

// uint8 [C, H, W] to [C, height, width] by a triangle filter as wide as the scale (bilinear with antialias); bit for
// bit what PIL's Image.resize(BILINEAR) gives.
at::Tensor resize_bilinear(const at::Tensor& image, int64_t height, int64_t width);

}  // namespace pare
