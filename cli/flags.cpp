#include "flags.h"

#include <fmt/format.h>

#include <cmath>

namespace pare::cli {

namespace {

// One letter for what is typed most.
std::string flag_of(const std::string& name) {
  if (name == "output") return "-o,--output";
  if (name == "ranks") return "-n,--ranks";
  if (name == "quiet") return "-q,--quiet";
  if (name == "verbose") return "-v,--verbose";
  return "--" + name;
}

}  // namespace

void FlagWriter::field(const std::string& name, bool& value, const std::string& help) {
  app_.add_flag(flag_of(name), value, help);
}

void FlagWriter::field(const std::string& name, int64_t& value, const std::string& help) {
  app_.add_option(flag_of(name), value, help)->capture_default_str();
}

void FlagWriter::field(const std::string& name, double& value, const std::string& help) {
  app_.add_option(flag_of(name), value, help)->capture_default_str()->check([name](const std::string& text) {
    const double number = std::strtod(text.c_str(), nullptr);
    return std::isfinite(number) ? std::string() : "--" + name + ": expected a finite number, found " + text;
  });
}

void FlagWriter::field(const std::string& name, std::string& value, const std::string& help, const Choices& choices) {
  auto* option = app_.add_option(flag_of(name), value, help);
  if (!value.empty()) option->capture_default_str();
  if (!choices.empty()) option->check(CLI::IsMember(choices));
}

void FlagWriter::field(const std::string& name, std::vector<std::string>& values, const std::string& help,
                       const Choices& choices) {
  auto* option = app_.add_option(flag_of(name), values, help)->allow_extra_args(false)->delimiter(',');
  if (!choices.empty()) option->check(CLI::IsMember(choices));
}

void FlagWriter::field(const std::string& name, std::vector<double>& values, const std::string& help) {
  app_.add_option(flag_of(name), values, help)->delimiter(',');
}

void FlagWriter::field(const std::string& name, std::vector<int64_t>& values, const std::string& help) {
  app_.add_option(flag_of(name), values, help)->delimiter(',');
}

void FlagWriter::positional(const std::string& name, std::string& value, const std::string& help, bool required) {
  // By its name too, so that a recipe can give it; the command line comes first and wins.
  app_.add_option(name + ",--" + name, value, help)
      ->required(required)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeFirst);
}

void FlagWriter::positional(const std::string& name, std::vector<std::string>& values, const std::string& help,
                            bool required) {
  app_.add_option(name + ",--" + name, values, help)->required(required);
}

void FlagLister::field(const std::string& name, bool& /*value*/, const std::string& help) {
  flags.push_back({name, help, {}, false, ""});
}

void FlagLister::field(const std::string& name, int64_t& value, const std::string& help) {
  flags.push_back({name, help, {}, true, std::to_string(value)});
}

void FlagLister::field(const std::string& name, double& value, const std::string& help) {
  flags.push_back({name, help, {}, true, fmt::format("{}", value)});
}

void FlagLister::field(const std::string& name, std::string& value, const std::string& help, const Choices& choices) {
  flags.push_back({name, help, choices, true, value});
}

void FlagLister::field(const std::string& name, std::vector<std::string>& values, const std::string& help,
                       const Choices& choices) {
  flags.push_back({name, help, choices, true, fmt::format("{}", fmt::join(values, ","))});
}

void FlagLister::field(const std::string& name, std::vector<double>& values, const std::string& help) {
  flags.push_back({name, help, {}, true, fmt::format("{}", fmt::join(values, ","))});
}

void FlagLister::field(const std::string& name, std::vector<int64_t>& values, const std::string& help) {
  flags.push_back({name, help, {}, true, fmt::format("{}", fmt::join(values, ","))});
}

void FlagLister::positional(const std::string& name, std::string& /*value*/, const std::string& help, bool required) {
  positionals.push_back({name, help, required, false});
}

void FlagLister::positional(const std::string& name, std::vector<std::string>& /*values*/, const std::string& help,
                            bool required) {
  positionals.push_back({name, help, required, true});
}

}  // namespace pare::cli
