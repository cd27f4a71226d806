// Any bytes as a record: a page or an Error, nothing else.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "pare/error.h"
#include "pare/report/page.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    pare::html_page({pare::parse_record("fuzz/record.json", bytes)});
  } catch (const pare::Error&) {
  }
  return 0;
}
