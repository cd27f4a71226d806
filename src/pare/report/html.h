// Text and pictures inside HTML and SVG. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pare {

// Safe between tags and inside quoted attributes; bytes that are not UTF-8 and control characters become U+FFFD.
std::string escape_html(std::string_view text);

std::string base64(std::string_view bytes);

// An <img> that holds its PNG.
std::string inline_png(std::string_view png, std::string_view description);

// Cells are HTML already. The first column is a heading, the others are figures unless `words` names them.
struct HtmlTable {
  std::vector<std::string> heading;
  std::vector<std::vector<std::string>> rows;
  std::vector<size_t> words;
};
std::string to_html(const HtmlTable& table);

}  // namespace pare
