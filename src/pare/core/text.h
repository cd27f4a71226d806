// Text from files, made fit to be shown: names in a model may hold anything, and what steers a terminal, hides text or
// turns its direction must not reach a screen as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pare {

// One character of UTF-8. Bytes that are none have length 1 and are not valid.
struct Utf8Character {
  uint32_t code = 0;
  size_t length = 1;
  bool valid = false;
};
// The character at the front of `text`, which is not empty.
Utf8Character first_character(std::string_view text);

bool is_utf8(std::string_view text);

// Control characters (C0, DEL, C1) and those that change the direction of text or that nobody sees.
bool steers_display(uint32_t code);

// Whether line ends and tabs stay or are escaped too.
enum class LineEnds { escape, keep };
// Characters that steer the display as \n, \x1b or \u202e, and bytes that are not UTF-8 as \xff.
std::string escape_controls(std::string_view text, LineEnds ends = LineEnds::escape);

}  // namespace pare
