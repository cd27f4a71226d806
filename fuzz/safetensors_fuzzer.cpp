// Any bytes as a safetensors file: a result or an Error, nothing else.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "pare/error.h"
#include "pare/io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    pare::parse_safetensors(pare::ByteSource::copy(bytes, "fuzz"));
  } catch (const pare::Error&) {
  }
  return 0;
}
