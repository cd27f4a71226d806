// Any bytes as a table of comma-separated values: read, or refused with an Error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "pare/data/csv.h"
#include "pare/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    int64_t line = 0;
    size_t bytes = 0;
    for (const auto& row : pare::parse_csv({reinterpret_cast<const char*>(data), size}, "fuzz")) {
      if (row.line <= line || row.cells.empty()) std::abort();
      line = row.line;
      for (const auto& cell : row.cells) bytes += cell.size();
    }
    if (bytes > size) std::abort();
  } catch (const pare::Error& error) {
    if (error.kind() != pare::ErrorKind::format) std::abort();
  }
  return 0;
}
