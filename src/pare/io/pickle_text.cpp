#include "pare/io/pickle_text.h"

#include <charconv>

#include "pare/io/byte_source.h"

namespace pare {

namespace {

// Parses all of the text, or nothing.
template <typename T, typename... Base>
std::optional<T> parse_whole(std::string_view text, Base... base) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base...);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

void append_utf8(std::string& text, uint32_t code) {
  const auto byte = [&](uint32_t value) { text += static_cast<char>(value); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xc0 | code >> 6), byte(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    byte(0xe0 | code >> 12), byte(0x80 | (code >> 6 & 0x3f)), byte(0x80 | (code & 0x3f));
  } else {
    byte(0xf0 | code >> 18), byte(0x80 | (code >> 12 & 0x3f)), byte(0x80 | (code >> 6 & 0x3f)),
        byte(0x80 | (code & 0x3f));
  }
}

char simple_escape(char c) {
  switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case '\\':
    case '\'':
    case '"': return c;
    default: return '\0';
  }
}

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text) { return parse_whole<int64_t>(text, 10); }

std::optional<double> parse_real(std::string_view text) { return parse_whole<double>(text); }

std::optional<std::string> unquote(std::string_view literal) {
  if (literal.size() < 2 || literal.front() != literal.back() || (literal.front() != '\'' && literal.front() != '"'))
    return std::nullopt;
  literal = literal.substr(1, literal.size() - 2);
  std::string text;
  for (size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\') {
      text += literal[i];
      continue;
    }
    if (++i == literal.size()) return std::nullopt;
    if (literal[i] == 'x') {
      const auto code = literal.size() - i > 2 ? parse_whole<uint8_t>(literal.substr(i + 1, 2), 16) : std::nullopt;
      if (!code) return std::nullopt;
      text += static_cast<char>(*code);
      i += 2;
    } else {
      const char escaped = simple_escape(literal[i]);
      if (escaped == '\0') return std::nullopt;
      text += escaped;
    }
  }
  return text;
}

std::optional<std::string> decode_raw_unicode(std::string_view text) {
  std::string utf8;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t digits = text.substr(i, 2) == "\\u" ? 4 : text.substr(i, 2) == "\\U" ? 8 : 0;
    if (digits == 0) {
      append_utf8(utf8, static_cast<unsigned char>(text[i]));
      continue;
    }
    const auto code =
        text.size() - i >= 2 + digits ? parse_whole<uint32_t>(text.substr(i + 2, digits), 16) : std::nullopt;
    if (!code || *code > 0x10ffff) return std::nullopt;
    append_utf8(utf8, *code);
    i += 1 + digits;
  }
  if (!is_utf8(utf8)) return std::nullopt;
  return utf8;
}

std::optional<std::string> encode_as_latin1(std::string_view utf8) {
  std::string bytes;
  for (size_t i = 0; i < utf8.size(); ++i) {
    const auto lead = static_cast<unsigned char>(utf8[i]);
    if (lead < 0x80) {
      bytes += utf8[i];
    } else if ((lead == 0xc2 || lead == 0xc3) && i + 1 < utf8.size()) {
      bytes += static_cast<char>((lead & 3u) << 6 | (static_cast<unsigned char>(utf8[++i]) & 0x3fu));
    } else {
      return std::nullopt;
    }
  }
  return bytes;
}

}  // namespace pare
