// Any bytes as a PNG, as an image and as packed images: read, or refused with an Error. Checksums are not repaired
// here; run with a dictionary of chunk names or on the seeds, which are whole files.
#include <ATen/ATen.h>

#include <cstdint>
#include <cstdlib>

#include "pare/core/error.h"
#include "pare/data/cifar.h"
#include "pare/data/image.h"

namespace {

template <typename Call>
void read_or_refuse(Call call) {
  try {
    call();
  } catch (const pare::Error& error) {
    if (error.kind() != pare::ErrorKind::format) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t max_pixels = 1 << 20;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  read_or_refuse([&] {
    const auto image = pare::decode_image(bytes, "fuzz", {.max_pixels = max_pixels});
    if (image.numel() > 3 * max_pixels) std::abort();
  });
  read_or_refuse(
      [&] { pare::decode_image(bytes, "fuzz", {.color = pare::ImageColor::gray, .max_pixels = max_pixels}); });
  read_or_refuse([&] {
    const auto images = pare::decode_png_packing(bytes, "fuzz", max_pixels);
    if (images.size(2) != images.size(3)) std::abort();
  });
  // The labels beside the packing are the same kind of guest.
  read_or_refuse([&] { pare::decode_json_labels({reinterpret_cast<const char*>(data), size}, "fuzz"); });
  return 0;
}
