// How pickles write numbers and strings as text (protocol 0 and Python 2). Used by the unpickler only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pare {

std::optional<int64_t> parse_integer(std::string_view text);
std::optional<double> parse_real(std::string_view text);

// A Python string literal with its quotes and escapes: 'a\n'. Null when it is not one.
std::optional<std::string> unquote(std::string_view literal);
// The raw-unicode-escape encoding (latin1 with \uXXXX and \UXXXXXXXX) as UTF-8.
std::optional<std::string> decode_raw_unicode(std::string_view text);
// UTF-8 to latin1; null when a character does not fit.
std::optional<std::string> encode_as_latin1(std::string_view utf8);

}  // namespace pare
