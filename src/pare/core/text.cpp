#include "pare/core/text.h"

#include <fmt/format.h>

namespace pare {

namespace {

size_t length_by_lead(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return 2;
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  return lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
}

std::string escaped(uint32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  return code < 0x80 ? fmt::format("\\x{:02x}", code) : fmt::format("\\u{:04x}", code);
}

}  // namespace

Utf8Character first_character(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  const size_t length = length_by_lead(lead);
  if (length == 0 || length > text.size()) return {.code = lead};
  uint32_t code = length == 1 ? lead : lead & (0x7fu >> length);
  for (size_t k = 1; k < length; ++k) {
    const auto next = static_cast<uint8_t>(text[k]);
    if ((next & 0xc0u) != 0x80u) return {.code = lead};
    code = code << 6 | (next & 0x3fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (overlong || surrogate || code > 0x10ffff) return {.code = lead};
  return {.code = code, .length = length, .valid = true};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Character next = first_character(text);
    if (!next.valid) return false;
    text.remove_prefix(next.length);
  }
  return true;
}

bool steers_display(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) ||                              // C0, DEL, C1
         code == 0x061c || code == 0x200e || code == 0x200f ||                        // marks of direction
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||  // line ends, overrides, isolates
         (code >= 0x200b && code <= 0x200d) || code == 0x2060 || code == 0xfeff ||    // without width
         (code >= 0xe0000 && code <= 0xe007f);                                        // tags
}

std::string escape_controls(std::string_view text, LineEnds ends) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character next = first_character(text);
    const bool line_end = (next.code == '\n' || next.code == '\t') && ends == LineEnds::keep;
    if (!next.valid)
      shown += fmt::format("\\x{:02x}", next.code);
    else if (steers_display(next.code) && !line_end)
      shown += escaped(next.code);
    else
      shown += text.substr(0, next.length);
    text.remove_prefix(next.length);
  }
  return shown;
}

}  // namespace pare
