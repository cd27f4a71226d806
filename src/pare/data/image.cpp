#include "pare/data/image.h"

#include <ATen/ATen.h>
#include <png.h>

#include <cstring>
#include <ostream>

#include "pare/core/file.h"
#include "pare/data/image_rows.h"
#include "pare/error.h"

namespace pare {

namespace {

// One row of interleaved pixels into the planes of `image`, with the colour conversion it needs.
void store_row(const uint8_t* pixels, int64_t width, int64_t from_channels, int64_t to_channels, int64_t plane,
               uint8_t* out) {
  if (from_channels == to_channels && from_channels == 1) {
    std::memcpy(out, pixels, static_cast<size_t>(width));
  } else if (from_channels == 1) {
    for (int c = 0; c < 3; ++c) std::memcpy(out + c * plane, pixels, static_cast<size_t>(width));
  } else if (to_channels == 3) {
    for (int64_t x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c) out[c * plane + x] = pixels[3 * x + c];
  } else {
    for (int64_t x = 0; x < width; ++x, pixels += 3)
      out[x] = static_cast<uint8_t>((pixels[0] * 19595 + pixels[1] * 38470 + pixels[2] * 7471 + 0x8000) >> 16);
  }
}

std::unique_ptr<ImageRows> open_rows(std::span<const std::byte> bytes, std::string_view where, int64_t max_pixels) {
  if (is_png(bytes)) return open_png(bytes, where, max_pixels);
  if (is_jpeg(bytes)) return open_jpeg(bytes, where, max_pixels);
  throw Error(ErrorKind::format, std::string(where), "neither a PNG nor a JPEG");
}

int64_t channels_of(const ImageRows& rows, ImageColor color) {
  return color == ImageColor::gray ? 1 : color == ImageColor::rgb ? 3 : rows.channels;
}

}  // namespace

at::Tensor decode_image(std::span<const std::byte> bytes, std::string_view where, const DecodeOptions& options) {
  const auto rows = open_rows(bytes, where, options.max_pixels);
  const int64_t channels = channels_of(*rows, options.color);
  auto image = at::empty({channels, rows->height, rows->width}, at::kByte);
  auto* out = image.data_ptr<uint8_t>();
  const int64_t plane = rows->height * rows->width;
  rows->read([&](int64_t y, const uint8_t* pixels) {
    store_row(pixels, rows->width, rows->channels, channels, plane, out + y * rows->width);
  });
  return image;
}

at::Tensor read_image(const std::filesystem::path& path, const DecodeOptions& options) {
  const auto file = MappedFile::open(path);
  return decode_image(file->bytes(), path.string(), options);
}

ImageExtents image_extents(const std::filesystem::path& path, const DecodeOptions& options) {
  const auto file = MappedFile::open(path);
  const auto rows = open_rows(file->bytes(), path.string(), options.max_pixels);
  return {channels_of(*rows, options.color), rows->height, rows->width};
}

std::string encode_png(const at::Tensor& image) {
  const bool planes = image.dim() == 3;
  const int64_t channels = planes ? image.size(0) : 1;
  if (image.scalar_type() != at::kByte || (!planes && image.dim() != 2) || image.numel() == 0 ||
      (channels != 1 && channels != 3 && channels != 4))
    throw Error(ErrorKind::shape, "write_png", "expected a uint8 image [1, 3 or 4, H, W] or [H, W], found {} {}",
                c10::toString(image.scalar_type()), fmt::join(image.sizes(), "x"));
  const auto interleaved = planes ? image.permute({1, 2, 0}).contiguous() : image.contiguous();
  png_image header = {};
  header.version = PNG_IMAGE_VERSION;
  header.height = static_cast<png_uint_32>(interleaved.size(0));
  header.width = static_cast<png_uint_32>(interleaved.size(1));
  header.format = channels == 1 ? PNG_FORMAT_GRAY : channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(header);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&header, bytes.data(), &size, 0, interleaved.data_ptr<uint8_t>(), 0, nullptr) == 0)
    throw Error(ErrorKind::failed, "write_png", "libpng: {}", header.message);
  bytes.resize(size);
  return bytes;
}

void write_png(const std::filesystem::path& path, const at::Tensor& image) {
  const std::string bytes = encode_png(image);
  write_file_atomically(
      path, [&](std::ostream& out) { out.write(bytes.data(), static_cast<std::streamsize>(bytes.size())); });
}

}  // namespace pare
