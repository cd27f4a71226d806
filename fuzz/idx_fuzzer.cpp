// Any bytes as an idx file, plain or gzip: read, or refused with an Error.
#include <ATen/ATen.h>

#include <cstdint>
#include <cstdlib>

#include "pare/data/idx.h"
#include "pare/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto values = pare::decode_idx({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    if (values.numel() > static_cast<int64_t>(size) * 1100) std::abort();
  } catch (const pare::Error& error) {
    if (error.kind() != pare::ErrorKind::format) std::abort();
  }
  return 0;
}
