#include "pare/core/option_scope.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "pare/core/glob.h"
#include "pare/error.h"

namespace pare {

namespace {

std::string value_text(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

bool fits(const std::string& glob, const std::string& text) {
  return glob.starts_with('!') ? !glob_matches(glob.substr(1), text) : glob_matches(glob, text);
}

bool any_fits(const std::vector<std::string>& globs, const nlohmann::json& value) {
  const nlohmann::json list = value.is_array() ? value : nlohmann::json::array({value});
  return std::any_of(list.begin(), list.end(), [&](const nlohmann::json& entry) {
    return std::any_of(globs.begin(), globs.end(), [&](const auto& glob) { return fits(glob, value_text(entry)); });
  });
}

// An option that the command does not have is never given.
bool met(const Condition& condition, const nlohmann::json& values, const nlohmann::json& usual) {
  const auto found = values.find(condition.option);
  if (found == values.end()) return !condition.holds;
  const bool fits = condition.values.empty() ? *found != usual.value(condition.option, nlohmann::json())
                                             : any_fits(condition.values, *found);
  return fits == condition.holds;
}

std::string condition_text(const Condition& condition) {
  std::vector<std::string> wanted, others;
  for (const auto& value : condition.values)
    (value.starts_with('!') ? others : wanted).push_back(value.substr(value.starts_with('!') ? 1 : 0));
  // The network itself is an argument of most commands, not an option.
  std::string text =
      condition.option == "model" || condition.option == "models" ? "MODEL" : std::string(OptionName{condition.option});
  if (!wanted.empty()) text += fmt::format(" {}", fmt::join(wanted, ", "));
  if (!others.empty()) text += fmt::format(" other than {}", fmt::join(others, ", "));
  return (condition.holds ? "with " : "without ") + text;
}

}  // namespace

void ScopeReader::only(const std::vector<std::string>& names, const OptionScope& scope) {
  for (const auto& name : names) scopes_[name].push_back(scope);
}

std::string scope_text(const OptionScope& scope) {
  std::vector<std::string> parts;
  for (const auto& condition : scope) parts.push_back(condition_text(condition));
  return fmt::format("only {}", fmt::join(parts, " or "));
}

std::string ScopeReader::why_unused(const std::string& name, const nlohmann::json& usual) const {
  const auto found = scopes_.find(name);
  if (found == scopes_.end()) return "";
  for (const OptionScope& scope : found->second)
    if (std::none_of(scope.begin(), scope.end(), [&](const auto& one) { return met(one, json(), usual); }))
      return scope_text(scope);
  return "";
}

void check_scopes(const ScopeReader& asked, const nlohmann::json& usual, const std::vector<std::string>& names) {
  for (const auto& name : names)
    if (const std::string why = asked.why_unused(name, usual); !why.empty())
      throw Error(ErrorKind::usage, OptionName{name}, "applies {}", why);
}

void check_scopes(const std::function<void(OptionVisitor&)>& asked, const std::function<void(OptionVisitor&)>& usual) {
  ScopeReader reader;
  JsonWriter defaults;
  asked(reader);
  usual(defaults);
  std::vector<std::string> changed;
  for (const auto& [name, value] : reader.json().items())
    if (value != defaults.json().value(name, nlohmann::json())) changed.push_back(name);
  check_scopes(reader, defaults.json(), changed);
}

}  // namespace pare
