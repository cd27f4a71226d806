// Any bytes as a PNG, as an image and as packed images, and as records of CIFAR: read, or refused with an Error. They
// are read as they are, and once more with the checksums of the chunks put right, since libpng stops at a wrong one.
#include <ATen/ATen.h>
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "pare/data/cifar.h"
#include "pare/data/image.h"
#include "pare/error.h"

namespace {

template <typename Call>
void read_or_refuse(Call call) {
  try {
    call();
  } catch (const pare::Error& error) {
    if (error.kind() != pare::ErrorKind::format) std::abort();
  }
}

std::vector<uint8_t> with_right_checksums(const uint8_t* data, size_t size) {
  std::vector<uint8_t> png(data, data + size);
  for (size_t chunk = 8; chunk + 12 <= size;) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | png[chunk + i];
    if (length > size - chunk - 12) break;
    const auto sum = crc32(0, png.data() + chunk + 4, static_cast<uInt>(length + 4));
    for (size_t i = 0; i < 4; ++i) png[chunk + 8 + length + i] = static_cast<uint8_t>(sum >> (24 - 8 * i));
    chunk += length + 12;
  }
  return png;
}

void read_png(std::span<const std::byte> bytes) {
  constexpr int64_t max_pixels = 1 << 20;
  read_or_refuse([&] {
    const auto image = pare::decode_image(bytes, "fuzz", {.max_pixels = max_pixels});
    if (image.numel() > 3 * max_pixels) std::abort();
  });
  read_or_refuse([&] {
    const auto images = pare::decode_png_packing(bytes, "fuzz", max_pixels);
    if (images.size(2) != images.size(3)) std::abort();
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  read_png(std::as_bytes(std::span(data, size)));
  read_png(std::as_bytes(std::span<const uint8_t>(with_right_checksums(data, size))));
  read_or_refuse([&] {
    const auto records = pare::decode_cifar_binary(std::as_bytes(std::span(data, size)), "fuzz");
    if (records.images.numel() + records.labels.numel() != static_cast<int64_t>(size)) std::abort();
  });
  // The labels beside the packing are the same kind of guest.
  read_or_refuse([&] { pare::decode_json_labels({reinterpret_cast<const char*>(data), size}, "fuzz"); });
  return 0;
}
