// Inside image decoding: a PNG or JPEG as a sequence of rows of interleaved bytes. A reader belongs to one thread; its
// bytes must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace pare {

// No image file holds more raw bytes than this many times its own size: deflate's limit is 1032, and a JPEG spends a
// bit on each block of 64 samples.
inline constexpr uint64_t max_expansion = 1100;

class ImageRows {
 public:
  using Row = std::function<void(int64_t y, const uint8_t* pixels)>;

  virtual ~ImageRows() = default;
  virtual void read(const Row& row) = 0;  // once; rows from top to bottom, width * channels bytes each

  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 0;  // 1 or 3
};

// Both read the header and throw Error{format} when it is broken or has more than `max_pixels` pixels.
std::unique_ptr<ImageRows> open_png(std::span<const std::byte> bytes, std::string_view where, int64_t max_pixels);
std::unique_ptr<ImageRows> open_jpeg(std::span<const std::byte> bytes, std::string_view where, int64_t max_pixels);

bool is_png(std::span<const std::byte> bytes);
bool is_jpeg(std::span<const std::byte> bytes);

}  // namespace pare
