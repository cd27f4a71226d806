// Tables of comma-separated values (RFC 4180): cells in quotes may hold commas, line ends and doubled quotes; lines end
// in LF or CRLF; a byte-order mark and empty lines are passed over. Cells without quotes lose spaces around them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pare {

struct CsvRow {
  int64_t line = 0;  // on which it begins, from 1 on
  std::vector<std::string> cells;
};

// Error{format} with the line for a quote that is not closed, text after one that is, and zero bytes. `name` is for
// errors.
std::vector<CsvRow> parse_csv(std::string_view text, const std::string& name);

}  // namespace pare
