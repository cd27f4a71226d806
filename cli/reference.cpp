#include "reference.h"

#include "command.h"
#include "flags.h"
#include "pare/version.h"

namespace pare::cli {

namespace {

constexpr const char* kExitCodes[][2] = {{"0", "done"},
                                         {"1", "failed"},
                                         {"2", "usage: the command line, a recipe or an option's value"},
                                         {"3", "the model has an operator that is not supported; it is named"},
                                         {"4", "verification failed: outputs differ"},
                                         {"5", "a quality gate was missed"},
                                         {"130", "interrupted"}};

FlagLister listed(Command& command) {
  FlagLister lister;
  command.describe(lister);
  return lister;
}

FlagLister common_flags() {
  FlagLister lister;
  CommonOptions common;
  common.describe(lister);
  return lister;
}

std::string flag_text(const FlagInfo& flag) {
  const char letter = letter_of(flag.name);
  return letter == 0 ? "--" + flag.name : fmt::format("-{}, --{}", letter, flag.name);
}

// Help with the values it takes and the one it has.
std::string help_text(const FlagInfo& flag) {
  std::string text = flag.help;
  std::string choices;
  for (const auto& choice : flag.choices)
    if (!choice.empty()) choices += (choices.empty() ? "" : ", ") + choice;
  if (!choices.empty()) text += fmt::format(" ({})", choices);
  if (!flag.value.empty()) text += fmt::format(" [{}]", flag.value);
  return text;
}

std::string synopsis(const FlagLister& lister) {
  std::string text;
  for (const auto& argument : lister.positionals) {
    std::string name = argument.name;
    for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    if (argument.several) name += "…";
    text += argument.required ? " " + name : " [" + name + "]";
  }
  return text;
}

std::string cell(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result;
}

std::string markdown_table(const std::vector<FlagInfo>& flags) {
  std::string text = "| option | meaning |\n|---|---|\n";
  for (const auto& flag : flags) text += fmt::format("| `{}` | {} |\n", flag_text(flag), cell(help_text(flag)));
  return text;
}

// A dot or a quote at the start of a line, and backslashes, mean something to roff.
std::string roff(const std::string& text) {
  std::string result;
  for (const char c : text)
    result += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
  return result.starts_with('.') || result.starts_with('\'') ? "\\&" + result : result;
}

std::string roff_list(const std::vector<FlagInfo>& flags) {
  std::string text;
  for (const auto& flag : flags) text += fmt::format(".TP\n.B {}\n{}\n", roff(flag_text(flag)), roff(help_text(flag)));
  return text;
}

}  // namespace

std::string markdown_reference() {
  std::string text =
      "# Reference\n\nMade by `pare completions markdown` from the table of options that the program itself reads. "
      "What stands in square brackets is the default. An option that has a meaning only with others is refused without "
      "them.\n\n## Every command\n\n" +
      markdown_table(common_flags().flags);
  text += "\n| exit code | meaning |\n|---|---|\n";
  for (const auto& code : kExitCodes) text += fmt::format("| {} | {} |\n", code[0], code[1]);
  for (auto& command : all_commands()) {
    const FlagLister lister = listed(*command);
    text += fmt::format("\n## pare {}{}\n\n{}.\n\n", command->name(), synopsis(lister), command->summary());
    for (const auto& argument : lister.positionals) text += fmt::format("- `{}`: {}\n", argument.name, argument.help);
    if (!lister.flags.empty()) text += (lister.positionals.empty() ? "" : "\n") + markdown_table(lister.flags);
  }
  return text;
}

std::string man_page() {
  std::string text = fmt::format(
      ".TH PARE 1 \"\" \"pare {}\" \"User Commands\"\n.SH NAME\npare \\- make trained neural networks smaller without "
      "breaking them\n.SH SYNOPSIS\n.B pare\n.I COMMAND\n[\\fIARGUMENT\\fR...] [\\fIOPTION\\fR...]\n.SH COMMANDS\n",
      kVersion);
  for (auto& command : all_commands()) {
    const FlagLister lister = listed(*command);
    text += fmt::format(".SS pare {}{}\n{}.\n", command->name(), roff(synopsis(lister)),
                        roff(std::string(command->summary())));
    for (const auto& argument : lister.positionals)
      text += fmt::format(".TP\n.I {}\n{}\n", roff(argument.name), roff(argument.help));
    text += roff_list(lister.flags);
  }
  text += ".SH OPTIONS OF EVERY COMMAND\n" + roff_list(common_flags().flags) + ".SH EXIT STATUS\n";
  for (const auto& code : kExitCodes) text += fmt::format(".TP\n.B {}\n{}\n", code[0], roff(code[1]));
  return text;
}

}  // namespace pare::cli
