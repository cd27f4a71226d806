// Any bytes as a recipe: a result or an Error, nothing else.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "pare/core/toml.h"
#include "pare/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    pare::from_toml(text, "fuzz");
  } catch (const pare::Error&) {
  }
  return 0;
}
