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

std::string cell(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result;
}

std::string markdown_table(const std::vector<FlagInfo>& flags) {
  std::string text = "| option | meaning |\n|---|---|\n";
  for (const auto& flag : flags) {
    const char* mark = flag.essential ? "**" : "";
    text += fmt::format("| {0}`{1}`{0} | {2} |\n", mark, flag_text(flag), cell(help_text(flag)));
  }
  return text;
}

std::string markdown_groups(const std::vector<FlagInfo>& flags) {
  std::string text;
  for (const auto& group : grouped(flags))
    text += fmt::format("{}*{}*\n\n{}", text.empty() ? "" : "\n", group.heading, markdown_table(group.flags));
  return text;
}

std::string markdown_examples(const Command& command) {
  std::string text;
  for (const auto& [why, line] : command.examples()) text += fmt::format("{}  # {}\n", line, why);
  return text.empty() ? text : "\n```\n" + text + "```\n";
}

// A dot or a quote at the start of a line, and backslashes, mean something to roff.
std::string roff(const std::string& text) {
  std::string result;
  for (const char c : text)
    result += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
  return result.starts_with('.') || result.starts_with('\'') ? "\\&" + result : result;
}

std::string roff_examples(const Command& command) {
  std::string text;
  for (const auto& [why, line] : command.examples())
    text += fmt::format("# {}\n{}\n", roff(std::string(why)), roff(std::string(line)));
  return text.empty() ? text : ".PP\n.nf\n" + text + ".fi\n";
}

std::string roff_list(const std::vector<FlagInfo>& flags) {
  std::string text;
  for (const auto& flag : flags) text += fmt::format(".TP\n.B {}\n{}\n", roff(flag_text(flag)), roff(help_text(flag)));
  return text;
}

std::string roff_groups(const std::vector<FlagInfo>& flags) {
  std::string text;
  for (const auto& group : grouped(flags))
    text += fmt::format(".PP\n.I {}\n{}", roff(group.heading), roff_list(group.flags));
  return text;
}

}  // namespace

std::string markdown_reference() {
  std::string text =
      "# Reference\n\nMade by `pare completions markdown` from the table of options that the program itself reads. "
      "What stands in square brackets is the default. An option that applies only with others is refused without "
      "them. Bold ones are those that `--help` shows; `--help-all` shows all.\n\n## Every command\n\n" +
      markdown_table(common_flags().flags);
  text += "\n| exit code | meaning |\n|---|---|\n";
  for (const auto& code : kExitCodes) text += fmt::format("| {} | {} |\n", code[0], code[1]);
  for (auto& command : all_commands()) {
    const FlagLister lister = listed(*command);
    text += fmt::format("\n## pare {}{}\n\n{}.\n\n", command->name(), synopsis(lister), command->summary());
    for (const auto& argument : lister.positionals) text += fmt::format("- `{}`: {}\n", argument.name, argument.help);
    if (!lister.flags.empty()) text += (lister.positionals.empty() ? "" : "\n") + markdown_groups(lister.flags);
    text += markdown_examples(*command);
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
    text += roff_groups(lister.flags) + roff_examples(*command);
  }
  text += ".SH OPTIONS OF EVERY COMMAND\n" + roff_list(common_flags().flags) + ".SH EXIT STATUS\n";
  for (const auto& code : kExitCodes) text += fmt::format(".TP\n.B {}\n{}\n", code[0], roff(code[1]));
  return text;
}

}  // namespace pare::cli
