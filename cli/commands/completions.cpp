// Shell completions, from the same description of options as everything else.
#include "command.h"
#include "flags.h"
#include "pare/error.h"
#include "reference.h"

namespace pare::cli {

namespace {

std::vector<FlagInfo> flags_of(Command& command) {
  FlagLister lister;
  command.describe(lister);
  CommonOptions common;
  common.describe(lister);
  lister.flags.push_back(
      {.name = "help", .help = "what the command does, and the options that most people need", .takes_value = false});
  lister.flags.push_back({.name = "help-all", .help = "every option of it", .takes_value = false});
  return lister.flags;
}

std::string quoted(std::string text) {
  std::string result;
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return "'" + result + "'";
}

std::string words(const Choices& choices) {
  std::string text;
  for (const auto& choice : choices)
    if (!choice.empty()) text += (text.empty() ? "" : " ") + choice;
  return text;
}

std::string bash_script() {
  std::string names;
  std::string cases;
  std::string values;
  for (auto& command : all_commands()) {
    names += (names.empty() ? "" : " ") + std::string(command->name());
    std::string flags;
    for (const auto& flag : flags_of(*command)) {
      flags += (flags.empty() ? "--" : " --") + flag.name;
      if (!flag.choices.empty())
        values += fmt::format("    {},--{}) COMPREPLY=($(compgen -W {} -- \"$word\")); return ;;\n", command->name(),
                              flag.name, quoted(words(flag.choices)));
    }
    cases += fmt::format("    {}) flags={} ;;\n", command->name(), quoted(flags));
  }
  return fmt::format(R"sh(# pare completions for bash: eval "$(pare completions bash)"
_pare() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" command="${{COMP_WORDS[1]}}" flags=""
  if [ "$COMP_CWORD" -eq 1 ]; then COMPREPLY=($(compgen -W '{} --help --help-all --version' -- "$word")); return; fi
  case "$command,$previous" in
{}  esac
  case "$command" in
{}  esac
  if [[ "$word" == -* ]]; then COMPREPLY=($(compgen -W "$flags" -- "$word")); else COMPREPLY=($(compgen -f -- "$word")); fi
}}
complete -o filenames -F _pare pare
)sh",
                     names, values, cases);
}

std::string zsh_script() {
  std::string commands;
  std::string cases;
  for (auto& command : all_commands()) {
    std::string summary(command->summary());
    std::erase(summary, ':');
    commands += fmt::format("    {}\n", quoted(fmt::format("{}:{}", command->name(), summary)));
    std::string arguments;
    for (const auto& flag : flags_of(*command)) {
      std::string help = flag.help;
      std::erase_if(help, [](char c) { return c == '[' || c == ']' || c == ':'; });
      const std::string value = !flag.takes_value      ? ""
                                : flag.choices.empty() ? ":value:_files"
                                                       : fmt::format(":value:({})", words(flag.choices));
      arguments += " " + quoted(fmt::format("--{}[{}]{}", flag.name, help, value));
    }
    cases += fmt::format("    {}) _arguments{} '*:file:_files' ;;\n", command->name(), arguments);
  }
  return fmt::format(R"sh(#compdef pare
_pare() {{
  local -a commands=(
{}  )
  if (( CURRENT == 2 )); then _describe command commands; return; fi
  local command=$words[2]
  shift words; (( CURRENT-- ))
  case $command in
{}  esac
}}
_pare "$@"
)sh",
                     commands, cases);
}

std::string fish_script() {
  std::string text = "complete -c pare -n __fish_use_subcommand -l version -d 'libraries and CPU features'\n";
  for (auto& command : all_commands()) {
    text += fmt::format("complete -c pare -n __fish_use_subcommand -a {} -d {}\n", command->name(),
                        quoted(std::string(command->summary())));
    for (const auto& flag : flags_of(*command))
      text += fmt::format("complete -c pare -n '__fish_seen_subcommand_from {}' -l {}{}{} -d {}\n", command->name(),
                          flag.name, flag.takes_value ? " -r" : "",
                          flag.choices.empty() ? "" : " -a " + quoted(words(flag.choices)), quoted(flag.help));
  }
  return text;
}

class Completions : public Command {
 public:
  std::string_view name() const override { return "completions"; }
  std::string_view summary() const override { return "Completions for shells; also the man page and the reference"; }
  std::vector<Example> examples() const override { return {{"for this shell", "eval \"$(pare completions bash)\""}}; }
  bool recorded() const override { return false; }
  void describe(OptionVisitor& options) override {
    options.positional("shell", shell_, "bash, zsh, fish, man or markdown");
  }

  nlohmann::json run(Session& session) override {
    std::string script;
    if (shell_ == "bash")
      script = bash_script();
    else if (shell_ == "zsh")
      script = zsh_script();
    else if (shell_ == "fish")
      script = fish_script();
    else if (shell_ == "man")
      script = man_page();
    else if (shell_ == "markdown")
      script = markdown_reference();
    else
      throw Error(ErrorKind::usage, "completions", "expected bash, zsh, fish, man or markdown, found '{}'", shell_);
    session.print("{}", Lines{script});
    return {{"shell", shell_}, {"script", script}};
  }

 private:
  std::string shell_;
};

}  // namespace

std::unique_ptr<Command> make_completions() { return std::make_unique<Completions>(); }

}  // namespace pare::cli
