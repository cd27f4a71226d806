#include "pare/core/toml.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "pare/error.h"

namespace pare {

namespace {

using nlohmann::json;

class TomlReader {
 public:
  TomlReader(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  json read() {
    json object = json::object();
    for (skip_lines(); !at_end(); skip_lines()) {
      const std::string key = read_key();
      if (object.contains(key)) fail(key, "stands here for the second time");
      skip_spaces();
      if (next() != '=') fail(key, "expected = after the key");
      ++place_;
      skip_spaces();
      object[key] = next() == '[' ? read_list(key) : read_scalar(key);
      skip_spaces();
      if (!at_end() && next() != '\n' && next() != '#') fail(key, "expected the end of the line after the value");
    }
    return object;
  }

 private:
  bool at_end() const { return place_ >= text_.size(); }
  char next() const { return at_end() ? '\0' : text_[place_]; }

  [[noreturn]] void fail(const std::string& key, const char* problem) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<int64_t>(place_), '\n');
    throw Error(ErrorKind::usage, source_, "line {}: {}{}{}", line, key, key.empty() ? "" : ": ", problem);
  }

  void skip_spaces() {
    while (next() == ' ' || next() == '\t' || next() == '\r') ++place_;
  }

  // Spaces, comments and ends of lines.
  void skip_lines() {
    for (skip_spaces(); next() == '\n' || next() == '#'; skip_spaces())
      place_ = next() == '#' ? std::min(text_.find('\n', place_), text_.size()) : place_ + 1;
  }

  std::string read_word(std::string_view others) {
    const size_t begin = place_;
    while (std::isalnum(static_cast<unsigned char>(next())) != 0 || (!at_end() && others.find(next()) != others.npos))
      ++place_;
    return std::string(text_.substr(begin, place_ - begin));
  }

  std::string read_key() {
    if (next() == '[') fail("", "a recipe has no tables, only the keys of the flags");
    if (next() == '"' || next() == '\'') return read_text("");
    std::string key = read_word("-_");
    if (key.empty()) fail("", "expected a key");
    return key;
  }

  json read_list(const std::string& key) {
    json list = json::array();
    ++place_;
    for (skip_lines(); next() != ']'; skip_lines()) {
      list.push_back(read_scalar(key));
      skip_lines();
      if (next() != ',' && next() != ']') fail(key, "expected , or ] after an entry of the list");
      if (next() == ',') ++place_;
    }
    ++place_;
    return list;
  }

  json read_scalar(const std::string& key) {
    if (next() == '"' || next() == '\'') return read_text(key);
    std::string word = read_word("+-._");
    if (word == "true" || word == "false") return word == "true";
    std::erase(word, '_');
    if (word.starts_with('+')) word.erase(0, 1);
    json number = json::parse(word, nullptr, false);
    if (!number.is_number()) fail(key, "expected a number, true, false, a list or a text in quotes");
    return number;
  }

  // "…" has the escapes of JSON, '…' none.
  std::string read_text(const std::string& key) {
    const char quote = next();
    const size_t begin = place_++;
    while (!at_end() && next() != quote && next() != '\n') place_ += quote == '"' && next() == '\\' ? 2 : 1;
    if (next() != quote) place_ = begin, fail(key, "the text has no closing quote on its line");
    ++place_;
    if (quote == '\'') return std::string(text_.substr(begin + 1, place_ - begin - 2));
    const json text = json::parse(text_.substr(begin, place_ - begin), nullptr, false);
    if (!text.is_string()) place_ = begin, fail(key, "the text is not UTF-8 or has an escape that is not one of JSON");
    return text.get<std::string>();
  }

  std::string_view text_;
  const std::string& source_;
  size_t place_ = 0;
};

}  // namespace

json from_toml(std::string_view text, const std::string& source) { return TomlReader(text, source).read(); }

}  // namespace pare
