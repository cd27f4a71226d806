// Any bytes as a JPEG: read, or refused with an Error.
#include <ATen/ATen.h>

#include <cstdint>
#include <cstdlib>

#include "pare/data/image.h"
#include "pare/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t max_pixels = 1 << 18;
  for (const auto color : {pare::ImageColor::as_stored, pare::ImageColor::gray}) {
    try {
      const auto image = pare::decode_image({reinterpret_cast<const std::byte*>(data), size}, "fuzz",
                                            {.color = color, .max_pixels = max_pixels});
      if (image.numel() > 3 * max_pixels) std::abort();
    } catch (const pare::Error& error) {
      if (error.kind() != pare::ErrorKind::format) std::abort();
    }
  }
  return 0;
}
