// A command of the program: its name, its options (described once) and what it does.
// One file per command under cli/commands; cli/commands.cpp lists them.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "console.h"
#include "pare/core/options.h"
#include "pare/dist/process_group.h"
#include "pare/report/record.h"

namespace pare::cli {

// Options that every command takes.
struct CommonOptions {
  bool json = false;
  int64_t threads = 0;  // 0: all cores
  int64_t seed = 0;
  double max_memory = 0;  // GB
  std::string log;
  bool quiet = false;
  bool verbose = false;
  bool force = false;
  std::string recipe;
  bool print_config = false;
  std::string runs = "runs";
  bool no_record = false;

  void describe(OptionVisitor& options);
  void describe_narration(OptionVisitor& options);  // only those of them that say how much is told
  Verbosity verbosity() const;
};

// What a command works with while it runs.
class Session {
 public:
  Session(const CommonOptions& common, ProcessGroup& ranks) : common(common), ranks(ranks) {}

  const CommonOptions& common;
  ProcessGroup& ranks;  // only rank 0 prints and writes
  std::string command;
  nlohmann::json recipe;  // the effective options of the command
  // For the record (cli/record.h): every training that the command did, and where its record goes; empty: into the
  // directory named by its options.
  std::vector<RecordedTraining> trainings;
  std::filesystem::path run;
  nlohmann::json found;  // what there is to record of a command that ends with an error

  // Did it train on data that is not divided, so that its metrics are of images that it trained on?
  bool trained_on_all() const;

  // Where the command may leave pictures and its record; made when first asked for. Empty with --no-record.
  std::filesystem::path run_directory();

  // Results for people, on stdout; nothing with --json.
  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) const {
    if (!common.json && ranks.main()) show_formatted(stdout, format, std::forward<Args>(args)...);
  }
  // Narration, on stderr; nothing with -q.
  template <typename... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) const {
    if (!common.quiet && ranks.main()) show_formatted(stderr, format, std::forward<Args>(args)...);
  }
  // Detail, on stderr, with -v.
  template <typename... Args>
  void detail(fmt::format_string<Args...> format, Args&&... args) const {
    if (common.verbose && ranks.main()) show_formatted(stderr, format, std::forward<Args>(args)...);
  }
  // One event of --log FILE.jsonl.
  void log(const nlohmann::json& event) const;
};

// A command line to begin with, and what it is for.
struct Example {
  std::string_view why;
  std::string_view line;
};

class Command {
 public:
  virtual ~Command() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;
  virtual std::vector<Example> examples() const { return {}; }
  virtual void describe(OptionVisitor& options) = 0;
  // Does it make a model or measure one, so that a record of it is kept?
  virtual bool recorded() const { return true; }
  // What several ranks do with it: nothing, all one thing together, or each its own part of the work.
  enum class Ranks { one, together, apart };
  virtual Ranks ranks() const { return Ranks::one; }
  // Words from the first that is no option of its own on are not parsed but handed over. Of the common options it takes
  // only those of narration: the others belong after the words' own command.
  virtual bool takes_rest() const { return false; }
  virtual void take_rest(std::vector<std::string>) {}
  // Returns the document that --json prints.
  virtual nlohmann::json run(Session& session) = 0;
};

// Every command, in the order of the help: what they are for, and the commands.
struct CommandFamily {
  std::string_view heading;
  std::vector<std::unique_ptr<Command>> commands;
};
std::vector<CommandFamily> command_families();
std::vector<std::unique_ptr<Command>> all_commands();

std::unique_ptr<Command> make_inspect();
std::unique_ptr<Command> make_convert();
std::unique_ptr<Command> make_verify();
std::unique_ptr<Command> make_run();
std::unique_ptr<Command> make_train();
std::unique_ptr<Command> make_eval();
std::unique_ptr<Command> make_explain();
std::unique_ptr<Command> make_localize();
std::unique_ptr<Command> make_roar();
std::unique_ptr<Command> make_compress();
std::unique_ptr<Command> make_prune();
std::unique_ptr<Command> make_fuse();
std::unique_ptr<Command> make_distill();
std::unique_ptr<Command> make_sparsify();
std::unique_ptr<Command> make_quantize();
std::unique_ptr<Command> make_tickets();
std::unique_ptr<Command> make_bench();
std::unique_ptr<Command> make_diff();
std::unique_ptr<Command> make_report();
std::unique_ptr<Command> make_reproduce();
std::unique_ptr<Command> make_launch();
std::unique_ptr<Command> make_data();
std::unique_ptr<Command> make_completions();

// The whole program; returns the exit code. The one place where errors are caught.
int run_cli(int argc, char** argv);

}  // namespace pare::cli
