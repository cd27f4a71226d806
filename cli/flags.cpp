#include "flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "console.h"
#include "pare/core/option_scope.h"

namespace pare::cli {

namespace {

// One letter for what is typed most.
constexpr std::pair<char, const char*> kLetters[] = {{'o', "output"}, {'n', "ranks"}, {'q', "quiet"}, {'v', "verbose"}};

std::string flag_of(const std::string& name) {
  const char letter = letter_of(name);
  return letter == 0 ? "--" + name : fmt::format("-{},--{}", letter, name);
}

std::string help_of_numbers(const std::string& help) {
  return with_flags(help) + " (several: with commas or as words)";
}
std::string help_of_words(const std::string& help) {
  return with_flags(help) + " (several: with commas, or as words where no argument can follow)";
}

// A number, or numbers with commas between them.
bool is_numbers(const std::string& word) {
  const char* place = word.c_str();
  while (true) {
    char* end = nullptr;
    std::strtod(place, &end);
    if (end == place) return false;
    if (*end == '\0') return true;
    if (*end != ',') return false;
    place = end + 1;
  }
}

// Empty, or why the text is no whole number of 64 bits; CLI11 would take the nearest.
std::string not_whole(const std::string& text) {
  int64_t value = 0;
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [end, failed] = std::from_chars(begin, text.data() + text.size(), value);
  if (failed == std::errc() && end == text.data() + text.size()) return "";
  return fmt::format("expected a whole number{}, found {}",
                     failed == std::errc::result_out_of_range ? " of 64 bits" : "", text);
}

std::string not_finite(const std::string& text) {
  return std::isfinite(std::strtod(text.c_str(), nullptr)) ? std::string()
                                                           : fmt::format("expected a finite number, found {}", text);
}

struct GivenFlag {
  const FlagInfo* flag = nullptr;  // nothing where there is no such flag
  bool has_value = false;          // in the same word
};

GivenFlag given_flag(const std::string& word, const std::vector<FlagInfo>& flags) {
  const auto named = [&](std::string_view name) {
    const auto found =
        std::find_if(flags.begin(), flags.end(), [&](const FlagInfo& flag) { return flag.name == name; });
    return found == flags.end() ? nullptr : &*found;
  };
  if (word.starts_with("--")) {
    const size_t equals = std::min(word.find('='), word.size());
    return {named(word.substr(2, equals - 2)), equals + 1 < word.size()};
  }
  GivenFlag given;
  for (size_t i = 1; i < word.size() && (given.flag == nullptr || !given.flag->takes_value); ++i) {
    const auto* known = std::find_if(std::begin(kLetters), std::end(kLetters),
                                     [&](const auto& letter) { return letter.first == word[i]; });
    if (known == std::end(kLetters)) return {};
    given = {named(known->second), i + 1 < word.size()};
  }
  return given;
}

}  // namespace

char letter_of(std::string_view name) {
  for (const auto& [letter, of] : kLetters)
    if (name == of) return letter;
  return 0;
}

void FlagWriter::field(const std::string& name, bool& value, const std::string& help) {
  app_.add_flag(flag_of(name), value, with_flags(help));
}

void FlagWriter::field(const std::string& name, int64_t& value, const std::string& help) {
  app_.add_option(flag_of(name), value, with_flags(help))->capture_default_str()->check(not_whole);
}

void FlagWriter::field(const std::string& name, double& value, const std::string& help) {
  app_.add_option(flag_of(name), value, with_flags(help))->capture_default_str()->check(not_finite);
}

void FlagWriter::field(const std::string& name, std::optional<double>& value, const std::string& help) {
  app_.add_option(flag_of(name), value, with_flags(help))->check(not_finite);
}

void FlagWriter::field(const std::string& name, const NamedValue& value, const std::string& help,
                       const Choices& choices) {
  app_.add_option_function<std::string>(flag_of(name), value.set, with_flags(help))
      ->default_str(value.get())
      ->check(CLI::IsMember(choices));
}

void FlagWriter::field(const std::string& name, std::string& value, const std::string& help, const Choices& choices) {
  auto* option = app_.add_option(flag_of(name), value, with_flags(help));
  if (!value.empty()) option->capture_default_str();
  if (!choices.empty()) option->check(CLI::IsMember(choices));
}

void FlagWriter::field(const std::string& name, std::vector<std::string>& values, const std::string& help,
                       const Choices& choices) {
  auto* option = app_.add_option(flag_of(name), values, help_of_words(help))->allow_extra_args(false)->delimiter(',');
  if (!choices.empty()) option->check(CLI::IsMember(choices));
}

void FlagWriter::field(const std::string& name, std::vector<double>& values, const std::string& help) {
  app_.add_option(flag_of(name), values, help_of_numbers(help))
      ->allow_extra_args(false)
      ->delimiter(',')
      ->check(not_finite);
}

void FlagWriter::field(const std::string& name, std::vector<int64_t>& values, const std::string& help) {
  app_.add_option(flag_of(name), values, help_of_numbers(help))
      ->allow_extra_args(false)
      ->delimiter(',')
      ->check(not_whole);
}

void FlagWriter::positional(const std::string& name, std::string& value, const std::string& help, bool required) {
  app_.add_option(name, value, with_flags(help))->required(required && value.empty());  // a recipe may have given it
}

void FlagWriter::positional(const std::string& name, std::vector<std::string>& values, const std::string& help,
                            bool required) {
  app_.add_option(name, values, with_flags(help))->required(required && values.empty());
}

void FlagWriter::only(const std::vector<std::string>& names, const OptionScope& scope) {
  for (const auto& name : names)
    if (auto* option = app_.get_option_no_throw("--" + name); option != nullptr)
      option->description(option->get_description() + "; " + with_flags(scope_text(scope)));
}

void FlagLister::only(const std::vector<std::string>& names, const OptionScope& scope) {
  for (auto& flag : flags)
    if (std::find(names.begin(), names.end(), flag.name) != names.end()) {
      flag.help += "; " + with_flags(scope_text(scope));
      flag.scopes.push_back(scope);
    }
}

void FlagLister::field(const std::string& name, bool& /*value*/, const std::string& help) {
  flags.push_back({name, with_flags(help), {}, false, ""});
}

void FlagLister::field(const std::string& name, int64_t& value, const std::string& help) {
  flags.push_back({name, with_flags(help), {}, true, std::to_string(value)});
}

void FlagLister::field(const std::string& name, double& value, const std::string& help) {
  flags.push_back({name, with_flags(help), {}, true, fmt::format("{}", value)});
}

void FlagLister::field(const std::string& name, std::optional<double>& value, const std::string& help) {
  flags.push_back({name, with_flags(help), {}, true, value ? fmt::format("{}", *value) : ""});
}

void FlagLister::field(const std::string& name, const NamedValue& value, const std::string& help,
                       const Choices& choices) {
  flags.push_back({name, with_flags(help), choices, true, value.get()});
}

void FlagLister::field(const std::string& name, std::string& value, const std::string& help, const Choices& choices) {
  flags.push_back({name, with_flags(help), choices, true, value});
}

void FlagLister::field(const std::string& name, std::vector<std::string>& values, const std::string& help,
                       const Choices& choices) {
  flags.push_back({name, help_of_words(help), choices, true, fmt::format("{}", fmt::join(values, ",")), ListOf::words});
}

void FlagLister::field(const std::string& name, std::vector<double>& values, const std::string& help) {
  flags.push_back({name, help_of_numbers(help), {}, true, fmt::format("{}", fmt::join(values, ",")), ListOf::numbers});
}

void FlagLister::field(const std::string& name, std::vector<int64_t>& values, const std::string& help) {
  flags.push_back({name, help_of_numbers(help), {}, true, fmt::format("{}", fmt::join(values, ",")), ListOf::numbers});
}

void FlagLister::positional(const std::string& name, std::string& /*value*/, const std::string& help, bool required) {
  positionals.push_back({name, with_flags(help), required, false});
}

void FlagLister::positional(const std::string& name, std::vector<std::string>& /*values*/, const std::string& help,
                            bool required) {
  positionals.push_back({name, with_flags(help), required, true});
}

std::vector<std::string> spread_lists(const std::vector<std::string>& words, const FlagLister& options) {
  const auto& places = options.positionals;
  const bool endless = std::any_of(places.begin(), places.end(), [](const auto& place) { return place.several; });
  std::vector<std::string> spread(words.begin(), words.begin() + 1);  // the command
  size_t arguments = 0;
  for (size_t i = 1; i < words.size();) {
    const std::string& word = words[i++];
    spread.push_back(word);
    if (word == "--") {
      spread.insert(spread.end(), words.begin() + static_cast<int64_t>(i), words.end());
      break;
    }
    if (!word.starts_with('-')) {
      ++arguments;
      continue;
    }
    const GivenFlag given = given_flag(word, options.flags);
    const FlagInfo* flag = given.flag;
    if (flag == nullptr || !flag->takes_value) continue;
    if (!given.has_value && i < words.size()) spread.push_back(words[i++]);
    const bool full = !endless && arguments >= places.size();
    const auto goes_on = [&](const std::string& next) {
      if (flag->list == ListOf::numbers) return is_numbers(next);
      return flag->list == ListOf::words && full && !next.starts_with('-');
    };
    for (; i < words.size() && goes_on(words[i]); ++i) {
      spread.push_back("--" + flag->name);
      spread.push_back(words[i]);
    }
  }
  return spread;
}

}  // namespace pare::cli
