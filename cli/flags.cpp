#include "flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
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
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return fmt::format("expected a number, found {}", text);
  return std::isfinite(value) ? std::string() : fmt::format("expected a finite number, found {}", text);
}

// What a text stands for: the word in capitals that its help begins with, else what that says it is.
std::string placeholder_of_text(const std::string& help) {
  const std::string first = help.substr(0, help.find_first_of(" ,;"));
  const auto capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (first.size() > 2 && capital(first[0]) && capital(first[1]))
    return first.ends_with(':') ? first.substr(0, first.size() - 1) : first;
  return first == "file" ? "FILE" : first == "directory" ? "DIR" : "TEXT";
}

std::string placeholder_of(const OptionField& field) {
  if (!field.choices.empty()) return "CHOICE";
  return std::visit(
      Overloaded{[](bool* /*value*/) { return std::string(); }, [](int64_t* /*value*/) { return std::string("N"); },
                 [](std::vector<int64_t>* /*values*/) { return std::string("N,…"); },
                 [](double* /*value*/) { return std::string("X"); },
                 [](std::optional<double>* /*value*/) { return std::string("X"); },
                 [](std::vector<double>* /*values*/) { return std::string("X,…"); },
                 [&](const auto& /*text*/) { return placeholder_of_text(field.help); }},
      field.value);
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
  for (const auto& [letter, meant] : kLetters)
    if (name == meant) return letter;
  return 0;
}

void FlagWriter::visit(const OptionField& field) { field.positional ? add_argument(field) : add(field); }

void FlagWriter::add(const OptionField& field) {
  const std::string flag = flag_of(field.name), help = with_flags(field.help);
  const auto among_choices = [&](CLI::Option* option) {
    if (!field.choices.empty()) option->check(CLI::IsMember(field.choices));
  };
  const auto add_list = [&](auto* values, const std::string& text) {
    return app_.add_option(flag, *values, text)->allow_extra_args(false)->delimiter(',');
  };
  std::visit(
      Overloaded{[&](bool* value) { app_.add_flag(flag, *value, help); },
                 [&](int64_t* value) { app_.add_option(flag, *value, help)->capture_default_str()->check(not_whole); },
                 [&](double* value) { app_.add_option(flag, *value, help)->capture_default_str()->check(not_finite); },
                 [&](std::optional<double>* value) { app_.add_option(flag, *value, help)->check(not_finite); },
                 [&](std::string* value) {
                   auto* option = app_.add_option(flag, *value, help);
                   if (!value->empty()) option->capture_default_str();
                   among_choices(option);
                 },
                 [&](std::vector<std::string>* values) { among_choices(add_list(values, help_of_words(field.help))); },
                 [&](std::vector<double>* values) { add_list(values, help_of_numbers(field.help))->check(not_finite); },
                 [&](std::vector<int64_t>* values) { add_list(values, help_of_numbers(field.help))->check(not_whole); },
                 [&](const NamedValue& value) {
                   among_choices(
                       app_.add_option_function<std::string>(flag, value.set, help)->default_str(value.get()));
                 }},
      field.value);
}

void FlagWriter::add_argument(const OptionField& field) {
  const auto add_to = [&](auto* value) {
    app_.add_option(field.name, *value, with_flags(field.help))
        ->required(field.required && value->empty());  // a recipe may have given it
  };
  if (auto* const* text = std::get_if<std::string*>(&field.value)) return add_to(*text);
  add_to(std::get<std::vector<std::string>*>(field.value));
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

void FlagLister::visit(const OptionField& field) {
  if (field.positional) {
    const bool several = std::holds_alternative<std::vector<std::string>*>(field.value);
    positionals.push_back({field.name, with_flags(field.help), field.required, several});
    return;
  }
  FlagInfo info{.name = field.name,
                .help = with_flags(field.help),
                .brief = with_flags(field.help),
                .choices = field.choices,
                .heading = field.heading,
                .essential = field.essential,
                .placeholder = placeholder_of(field)};
  const auto numbers = [&](const auto* values) {
    info.help = help_of_numbers(field.help);
    info.value = fmt::format("{}", fmt::join(*values, ","));
    info.list = ListOf::numbers;
  };
  std::visit(
      Overloaded{[&](const bool* /*value*/) { info.takes_value = false; },
                 [&](const std::optional<double>* value) { info.value = *value ? fmt::format("{}", **value) : ""; },
                 [&](const std::vector<std::string>* values) {
                   info.help = help_of_words(field.help);
                   info.value = fmt::format("{}", fmt::join(*values, ","));
                   info.list = ListOf::words;
                 },
                 [&](const std::vector<double>* values) { numbers(values); },
                 [&](const std::vector<int64_t>* values) { numbers(values); },
                 [&](const NamedValue& value) { info.value = value.get(); },
                 [&](const auto* value) { info.value = fmt::format("{}", *value); }},
      field.value);
  flags.push_back(std::move(info));
}

std::string flag_text(const FlagInfo& flag) {
  const char letter = letter_of(flag.name);
  return letter == 0 ? "--" + flag.name : fmt::format("-{}, --{}", letter, flag.name);
}

namespace {

std::string text_with_values(const std::string& help, Choices choices, const std::string& value) {
  std::erase(choices, "");
  std::string text = help;
  if (!choices.empty()) text += fmt::format(" ({})", fmt::join(choices, ", "));
  if (!value.empty()) text += fmt::format(" [{}]", value);
  return text;
}

}  // namespace

std::string help_text(const FlagInfo& flag) { return text_with_values(flag.help, flag.choices, flag.value); }

std::string brief_text(const FlagInfo& flag) {
  constexpr size_t few = 12;
  Choices choices = flag.choices;
  if (choices.size() > few) {
    choices.resize(few);
    choices.emplace_back("…");
  }
  return text_with_values(flag.brief, choices, flag.value);
}

std::string upper_case(std::string name) {
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string synopsis(const FlagLister& lister) {
  std::string text;
  for (const auto& argument : lister.positionals) {
    const std::string name = upper_case(argument.name) + (argument.several ? "…" : "");
    text += argument.required ? " " + name : " [" + name + "]";
  }
  return text;
}

std::vector<FlagGroup> grouped(const std::vector<FlagInfo>& flags) {
  std::vector<FlagGroup> groups;
  for (const bool essential : {true, false})
    for (const auto& flag : flags) {
      if (flag.essential != essential) continue;
      const auto same = std::ranges::find(groups, flag.heading, &FlagGroup::heading);
      (same != groups.end() ? *same : groups.emplace_back(FlagGroup{flag.heading, {}})).flags.push_back(flag);
    }
  // What a command is about comes first, what it shares with others last.
  constexpr std::string_view last[] = {"output", "runs", "model", "every command"};
  const auto place = [&](const FlagGroup& group) {
    const auto* shared = std::ranges::find(last, group.heading);
    return std::pair(shared == std::end(last) ? 0 : 1 + (shared - std::begin(last)),
                     std::ranges::find(flags, group.heading, &FlagInfo::heading) - flags.begin());
  };
  std::ranges::stable_sort(groups, {}, place);
  return groups;
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
