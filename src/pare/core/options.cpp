#include "pare/core/options.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "pare/core/text.h"
#include "pare/error.h"

namespace pare {

Condition with(std::string option, std::vector<std::string> values) {
  return {.option = std::move(option), .values = std::move(values), .holds = true};
}

Condition without(std::string option, std::vector<std::string> values) {
  return {.option = std::move(option), .values = std::move(values), .holds = false};
}

JsonWriter::JsonWriter() : json_(std::make_unique<nlohmann::json>(nlohmann::json::object())) {}
JsonWriter::~JsonWriter() = default;

void JsonWriter::visit(const OptionField& field) {
  nlohmann::json& entry = (*json_)[field.name];
  std::visit(Overloaded{[&](const NamedValue& value) { entry = value.get(); },
                        [&](const std::optional<double>* value) {
                          entry = *value ? nlohmann::json(**value) : nlohmann::json();
                        },
                        [&](const auto* value) { entry = *value; }},
             field.value);
}

namespace {

// Each sets `value` if what was found is of its type.
bool take(const nlohmann::json& found, bool& value) {
  if (!found.is_boolean()) return false;
  value = found.get<bool>();
  return true;
}

bool take(const nlohmann::json& found, int64_t& value) {
  const bool too_large = found.is_number_unsigned() && found.get<uint64_t>() > std::numeric_limits<int64_t>::max();
  if (!found.is_number_integer() || too_large) return false;
  value = found.get<int64_t>();
  return true;
}

bool take(const nlohmann::json& found, double& value) {
  if (!found.is_number() || !std::isfinite(found.get<double>())) return false;
  value = found.get<double>();
  return true;
}

bool take(const nlohmann::json& found, std::optional<double>& value) {
  double number = 0;
  if (!found.is_null() && !take(found, number)) return false;
  value = found.is_null() ? std::nullopt : std::optional(number);
  return true;
}

bool take(const nlohmann::json& found, std::string& value) {
  if (!found.is_string()) return false;
  value = found.get<std::string>();
  return true;
}

template <typename T>
bool take(const nlohmann::json& found, std::vector<T>& values) {
  const nlohmann::json list = found.is_array() ? found : nlohmann::json::array({found});
  std::vector<T> taken(list.size());
  for (size_t i = 0; i < taken.size(); ++i)
    if (!take(list[i], taken[i])) return false;
  values = std::move(taken);
  return true;
}

nlohmann::json divided(const nlohmann::json& found) {
  if (!found.is_string()) return found;
  auto parts = nlohmann::json::array();
  const auto text = found.get<std::string>();
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<std::string> texts(const std::string& value) { return {value}; }
std::vector<std::string> texts(const std::vector<std::string>& values) { return values; }
template <typename T>
std::vector<std::string> texts(const T& /*value*/) {
  return {};
}

}  // namespace

JsonReader::JsonReader(const nlohmann::json& object, std::string source)
    : json_(std::make_unique<nlohmann::json>(object)), source_(std::move(source)) {}
JsonReader::~JsonReader() = default;

template <typename T>
void JsonReader::read(const OptionField& field, T& value, const char* expected) {
  const auto& [name, choices] = std::tie(field.name, field.choices);
  names_.push_back(name);
  const auto entry = json_->find(name);
  if (entry == json_->end()) return;
  const T before = value;
  const nlohmann::json found = std::is_same_v<T, std::vector<std::string>> ? divided(*entry) : *entry;
  if (!take(found, value))
    throw Error(ErrorKind::usage, source_, "{}: expected {}, found {}", name, expected, json_text(*entry));
  // What an option is without being given is no choice, but `print-config` prints it.
  if (choices.empty() || value == before) return;
  for (const auto& text : texts(value))
    if (std::find(choices.begin(), choices.end(), text) == choices.end())
      throw Error(ErrorKind::usage, source_, "{}: expected one of {}, found \"{}\"", name, fmt::join(choices, ", "),
                  text);
}

void JsonReader::visit(const OptionField& field) {
  std::visit(Overloaded{[&](bool* value) { read(field, *value, "true or false"); },
                        [&](int64_t* value) { read(field, *value, "a whole number"); },
                        [&](double* value) { read(field, *value, "a finite number"); },
                        [&](std::optional<double>* value) { read(field, *value, "a finite number"); },
                        [&](std::string* value) { read(field, *value, "a text in quotes"); },
                        [&](std::vector<std::string>* values) { read(field, *values, "a list of texts in quotes"); },
                        [&](std::vector<double>* values) { read(field, *values, "a list of numbers"); },
                        [&](std::vector<int64_t>* values) { read(field, *values, "a list of whole numbers"); },
                        [&](const NamedValue& value) {
                          std::string text = value.get();
                          read(field, text, "a text in quotes");
                          value.set(text);
                        }},
             field.value);
}

void JsonReader::check_keys() const {
  for (const auto& [key, value] : json_->items())
    if (std::find(names_.begin(), names_.end(), key) == names_.end())
      throw Error(ErrorKind::usage, source_, "{}: is not an option of the command", key);
}

std::vector<std::string> described_names(const std::function<void(OptionVisitor&)>& describe) {
  JsonWriter writer;
  describe(writer);
  std::vector<std::string> names;
  for (const auto& [name, value] : writer.json().items()) names.push_back(name);
  return names;
}

std::string to_toml(const nlohmann::json& object) {
  std::string text;
  for (const auto& [key, value] : object.items())
    if (!value.is_null()) text += key + " = " + json_text(value) + "\n";  // TOML has no word for nothing
  return text;
}

std::string json_text(const nlohmann::json& value, int indent) {
  // Names of files may be any bytes: dump() alone would throw at those that are not UTF-8.
  const std::string text = value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
  // JSON escapes the controls of ASCII only; the others stand nowhere but in strings.
  std::string shown;
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Character next = first_character(rest);
    if (next.code >= 0x10000 && steers_display(next.code))
      shown += fmt::format("\\u{:04x}\\u{:04x}", 0xd7c0 + (next.code >> 10), 0xdc00 + (next.code & 0x3ff));
    else if (next.code >= 0x7f && steers_display(next.code))
      shown += fmt::format("\\u{:04x}", next.code);
    else
      shown += rest.substr(0, next.length);
    rest.remove_prefix(next.length);
  }
  return shown;
}

}  // namespace pare
