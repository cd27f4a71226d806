#include <malloc.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <set>
#include <thread>

#include "command.h"
#include "flags.h"
#include "machine.h"
#include "pare/core/error.h"
#include "pare/core/interrupt.h"
#include "pare/zoo/nearest.h"
#include "record.h"

namespace pare::cli {

void CommonOptions::describe(OptionVisitor& options) {
  options.field("json", json, "print one JSON document instead of tables");
  options.field("threads", threads, "threads to compute with (0: all cores)");
  options.field("seed", seed, "same seed, same machine, same result");
  options.field("log", log, "append events to FILE.jsonl, one a line");
  options.field("quiet", quiet, "no narration");
  options.field("verbose", verbose, "more narration");
  options.field("force", force, "overwrite existing files");
  options.field("recipe", recipe, "TOML file with the same keys as the flags; flags win");
  options.field("print-config", print_config, "print the effective options as a recipe and stop");
  options.field("runs", runs, "directory of the run directories, where records and states are kept");
  options.field("no-record", no_record, "leave no record of the run in its directory");
}

Verbosity CommonOptions::verbosity() const {
  return quiet ? Verbosity::quiet : verbose ? Verbosity::verbose : Verbosity::normal;
}

void Session::log(const nlohmann::json& event) const {
  if (common.log.empty() || !ranks.main()) return;
  std::ofstream out(common.log, std::ios::app);
  out << json_text(event) << "\n";
  if (!out) throw Error(ErrorKind::file, common.log, "cannot be written");
}

namespace {

// The recipe's entries as flags, put before those of the command line; an entry whose flag is given there is left out.
std::vector<std::string> recipe_arguments(const std::string& path, const std::set<std::string>& given) {
  std::ifstream in(path);
  if (!in) throw Error(ErrorKind::file, path, "cannot be opened");
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigTOML().from_config(in);
  } catch (const CLI::Error& error) {
    throw Error(ErrorKind::usage, path, "is not a recipe: {}", error.what());
  }
  std::vector<std::string> arguments;
  for (const auto& item : items) {
    if (item.name == "++" || item.name == "--" || given.contains(item.name)) continue;
    const bool on = item.inputs.size() == 1 && item.inputs[0] == "true";
    const bool off = item.inputs.size() == 1 && item.inputs[0] == "false";
    if (off || item.inputs.empty() || (item.inputs.size() == 1 && item.inputs[0].empty())) continue;
    for (const auto& input : item.inputs) {
      arguments.push_back("--" + item.name);
      if (!on) arguments.push_back(input);
    }
  }
  return arguments;
}

// argv with the entries of --recipe FILE spliced in after the command's name.
std::vector<std::string> expanded_arguments(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::set<std::string> given;
  std::string recipe;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with("--")) continue;
    const size_t equals = arguments[i].find('=');
    const std::string name = arguments[i].substr(2, equals == std::string::npos ? equals : equals - 2);
    given.insert(name);
    if (name == "recipe")
      recipe = equals != std::string::npos ? arguments[i].substr(equals + 1)
               : i + 1 < arguments.size()  ? arguments[i + 1]
                                           : "";
  }
  if (recipe.empty() || arguments.empty() || arguments[0] == "launch") return arguments;
  auto extra = recipe_arguments(recipe, given);
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  return arguments;
}

void prepare_computing(const CommonOptions& common, const RankPlace& place) {
  if (common.threads < 0) throw Error(ErrorKind::usage, "--threads", "expected 0 or more, found {}", common.threads);
  const int all = static_cast<int>(std::thread::hardware_concurrency()) / place.local_size;
  at::set_num_threads(common.threads > 0 ? static_cast<int>(std::min<int64_t>(common.threads, 4096))
                                         : std::max(all, 1));
  at::globalContext().setFlushDenormal(true);
  // Activations come and go by the megabyte: keep freed memory instead of returning it to the system and faulting it in
  // again page by page.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  at::manual_seed(static_cast<uint64_t>(common.seed));
}

int run_command(Command& command, CommonOptions common, const std::vector<std::string>& words) {
  JsonWriter writer;
  command.describe(writer);
  if (common.print_config) {
    nlohmann::json effective = writer.json();
    effective["seed"] = common.seed;
    effective["threads"] = common.threads;
    fmt::print("{}", to_toml(effective));
    return 0;
  }
  using Ranks = Command::Ranks;
  const RankPlace place = command.ranks() != Ranks::one ? place_from_environment() : RankPlace{};
  prepare_computing(common, place);
  const auto ranks = join(command.ranks() == Ranks::together ? place : RankPlace{});
  if (place.rank > 0) {
    common.quiet = true;
    common.json = common.verbose = false;
  }
  Session session(common, *ranks);
  session.command = command.name();
  session.recipe = writer.json();
  session.recipe["seed"] = common.seed;
  session.log({{"event", "start"}, {"command", command.name()}, {"options", session.recipe}});
  const RecordClock clock;
  nlohmann::json result;
  try {
    result = command.run(session);
  } catch (const std::exception& error) {
    ranks->leave(error.what());
    throw;
  }
  if (!ranks->main()) return 0;
  if (command.recorded() && !common.no_record) write_record(session, words, clock, result);
  session.log({{"event", "result"}, {"command", command.name()}, {"result", result}});
  if (common.json) fmt::print("{}\n", json_text(result, 2));
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (lost) throw Error(ErrorKind::file, "stdout", "could not be written");
  return 0;
}

// Error{usage} when the first word is not a command; CLI11 would only say that one is required.
void check_command(const std::vector<std::string>& arguments, const std::vector<std::unique_ptr<Command>>& commands) {
  if (arguments.empty() || arguments[0].starts_with("-")) return;
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const auto& command : commands) names.emplace_back(command->name());
  if (std::find(names.begin(), names.end(), arguments[0]) != names.end()) return;
  throw Error(ErrorKind::usage, arguments[0], "is not a command; did you mean {}? pare --help lists them",
              fmt::join(nearest(arguments[0], names, 2), " or "));
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("pare makes trained neural networks smaller without breaking them, and proves it.", "pare");
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text());
  CommonOptions common;
  std::vector<std::string> words;
  auto commands = all_commands();
  for (auto& command : commands) {
    auto* sub = app.add_subcommand(std::string(command->name()), std::string(command->summary()));
    if (command->takes_rest()) sub->prefix_command();
    FlagWriter writer(*sub);
    command->describe(writer);
    common.describe(writer);
  }
  try {
    auto arguments = expanded_arguments(argc, argv);
    check_command(arguments, commands);
    words = arguments;
    std::reverse(arguments.begin(), arguments.end());
    app.parse(arguments);
  } catch (const CLI::CallForVersion&) {
    fmt::print("{}", version_text());
    return 0;
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return 2;
  }
  for (auto& command : commands)
    if (const std::string name(command->name()); app.got_subcommand(name)) {
      if (command->takes_rest()) command->take_rest(app.get_subcommand(name)->remaining());
      return run_command(*command, common, words);
    }
  return 2;
}

}  // namespace

int run_cli(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);  // `pare … | head` ends quietly
  handle_interrupts();
  try {
    return parse_and_run(argc, argv);
  } catch (const Error& error) {
    fmt::print(stderr, "pare: {}\n", error.what());
    return exit_code(error.kind());
  } catch (const c10::Error& error) {
    fmt::print(stderr, "pare: {}\n", error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "pare: out of memory\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "pare: {}\n", error.what());
  }
  return 1;
}

}  // namespace pare::cli
