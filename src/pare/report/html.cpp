#include "pare/report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "pare/core/text.h"

namespace pare {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

std::string escape_html(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character next = first_character(text.substr(at));
    const char c = text[at];
    if (!next.valid || (steers_display(next.code) && c != '\n' && c != '\t'))
      result += kReplacement;
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '&')
      result += "&amp;";
    else if (c == '"')
      result += "&quot;";
    else if (c == '\'')
      result += "&#39;";
    else
      result += text.substr(at, next.length);
    at += next.length;
  }
  return result;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k) text += i + k > bytes.size() ? '=' : digits[group >> (18 - 6 * k) & 63];
  }
  return text;
}

std::string inline_png(std::string_view png, std::string_view description) {
  return fmt::format("<img alt=\"{}\" src=\"data:image/png;base64,{}\">", escape_html(description), base64(png));
}

std::string to_html(const HtmlTable& table) {
  const auto is_word = [&](size_t column) {
    return column == 0 || std::count(table.words.begin(), table.words.end(), column) > 0;
  };
  const auto cell = [&](const char* tag, size_t column, const std::string& content) {
    return fmt::format("<{0}{1}>{2}</{0}>", tag, is_word(column) ? column == 0 ? "" : " class=\"w\"" : " class=\"n\"",
                       content);
  };
  std::string html = "<div class=\"wide\"><table>\n<thead><tr>";
  for (size_t i = 0; i < table.heading.size(); ++i) html += cell("th", i, table.heading[i]);
  html += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) html += cell(i == 0 ? "th" : "td", i, row[i]);
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace pare
