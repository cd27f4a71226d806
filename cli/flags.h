// Turns described options into command-line flags.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "pare/core/options.h"

namespace pare::cli {

class FlagWriter : public OptionVisitor {
 public:
  explicit FlagWriter(CLI::App& app) : app_(app) {}
  void only(const std::vector<std::string>& names, const OptionScope& scope) override;
  void visit(const OptionField& field) override;

 private:
  void add(const OptionField& field);
  void add_argument(const OptionField& field);

  CLI::App& app_;
};

// The letter that stands for an option's name; 0 for none.
char letter_of(std::string_view name);

// Several values of an option: none, numbers, or words.
enum class ListOf { nothing, numbers, words };

// Lists the flags and arguments of a command, for completions and the reference.
struct FlagInfo {
  std::string name;
  std::string help;
  std::string brief = {};  // without what other options it goes with
  Choices choices;
  bool takes_value = true;
  std::string value;  // the default as text; empty where there is none
  ListOf list = ListOf::nothing;
  std::vector<OptionScope> scopes = {};  // all have to hold for it to have a meaning
  std::string heading = {};
  bool essential = false;
  std::string placeholder = {};  // of its value: N, X, FILE, …
};

// Flags that belong together, the essential ones first.
struct FlagGroup {
  std::string heading;
  std::vector<FlagInfo> flags;
};
// In the order in which their headings come first; what commands share comes last.
std::vector<FlagGroup> grouped(const std::vector<FlagInfo>& flags);

struct ArgumentInfo {
  std::string name;
  std::string help;
  bool required = true;
  bool several = false;
};

class FlagLister : public OptionVisitor {
 public:
  std::vector<FlagInfo> flags;
  std::vector<ArgumentInfo> positionals;
  void only(const std::vector<std::string>& names, const OptionScope& scope) override;
  void visit(const OptionField& field) override;
};

// "-o, --output"; its help with the values it takes and the one it has; "MODEL [IMAGES…]" of a command.
std::string flag_text(const FlagInfo& flag);
std::string help_text(const FlagInfo& flag);
std::string brief_text(const FlagInfo& flag);  // less of both, on a screen
std::string upper_case(std::string name);
std::string synopsis(const FlagLister& lister);

// The words of a command line with the flag of a list before each of its values. A list of numbers goes on as long as
// words are numbers or commas between numbers; one of words goes on to the next option where no argument can stand: the
// command takes none, or its only one came before.
std::vector<std::string> spread_lists(const std::vector<std::string>& words, const FlagLister& options);

}  // namespace pare::cli
