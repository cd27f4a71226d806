#include <malloc.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "command.h"
#include "flags.h"
#include "machine.h"
#include "pare/core/error.h"
#include "pare/core/interrupt.h"
#include "pare/core/memory.h"
#include "pare/core/toml.h"
#include "pare/zoo/nearest.h"
#include "record.h"

namespace pare::cli {

void CommonOptions::describe(OptionVisitor& options) {
  options.field("json", json, "print one JSON document instead of tables");
  options.field("threads", threads, "threads to compute with (0: all cores)");
  options.field("seed", seed, "same seed, same machine, same result");
  options.field("max-memory", max_memory, "GB that tensors may take (0: three quarters of the machine's memory)");
  options.field("log", log, "append events to FILE.jsonl, one a line");
  describe_narration(options);
  options.field("force", force, "overwrite existing files");
  options.field("recipe", recipe,
                "TOML file (or pipe) with the same keys as the flags; what the command line gives wins");
  options.field("print-config", print_config, "print the effective options as a recipe and stop");
  options.field("runs", runs, "directory of the run directories, where records and states are kept");
  options.field("no-record", no_record, "leave no record of the run in its directory");
}

void CommonOptions::describe_narration(OptionVisitor& options) {
  options.field("quiet", quiet, "no narration");
  options.field("verbose", verbose, "more narration");
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

// The text of a file, or of a pipe such as /dev/stdin.
std::string recipe_text(const std::string& path) {
  constexpr size_t most = 1 << 20;
  std::error_code absent;
  const auto status = std::filesystem::status(path, absent);
  if (!absent && !is_regular_file(status) && !is_fifo(status) && !is_socket(status))
    throw Error(ErrorKind::file, path, "is neither a file nor a pipe: there is no recipe in it");
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(ErrorKind::file, path, "cannot be opened");
  std::string text(most + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > most) throw Error(ErrorKind::usage, path, "is larger than any recipe ({} bytes)", most);
  return text;
}

// The file of --recipe FILE or --recipe=FILE; empty where there is none.
std::string recipe_of(const std::vector<std::string>& words) {
  const std::string flag = "--recipe";
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(flag + "=")) return words[i].substr(flag.size() + 1);
    if (words[i] == flag && i + 1 < words.size()) return words[i + 1];
  }
  return "";
}

// Options become what the recipe says before the command line is parsed, and so its flags and arguments win.
void take_recipe(const std::string& path, Command& command, CommonOptions& common) {
  const nlohmann::json entries = from_toml(recipe_text(path), path);
  if (entries.contains("recipe")) throw Error(ErrorKind::usage, path, "recipe: a recipe does not name another one");
  JsonReader reader(entries, path);
  command.describe(reader);
  common.describe(reader);
  reader.check_keys();
}

// What was printed has to arrive: Error{file} when it was lost on the way.
void flush_stdout() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw Error(ErrorKind::file, "stdout", "could not be written");
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
  if (!(common.max_memory >= 0 && common.max_memory < 1e9))
    throw Error(ErrorKind::usage, "--max-memory", "expected 0 or more GB, found {}", common.max_memory);
  set_memory_limit(common.max_memory > 0 ? static_cast<uint64_t>(std::max(common.max_memory * 1e9, 1.0))
                                         : default_memory_limit() / static_cast<uint64_t>(place.local_size));
  at::manual_seed(static_cast<uint64_t>(common.seed));
}

int run_command(Command& command, CommonOptions common, const std::vector<std::string>& words) {
  JsonWriter writer;
  command.describe(writer);
  using Ranks = Command::Ranks;
  const RankPlace place = command.ranks() != Ranks::one ? place_from_environment() : RankPlace{};
  if (common.print_config) {
    if (place.rank > 0) return 0;
    nlohmann::json effective = writer.json();
    effective["seed"] = common.seed;
    effective["threads"] = common.threads;
    show(stdout, to_toml(effective));
    flush_stdout();
    return 0;
  }
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
  const bool recorded = command.recorded() && !common.no_record && ranks->main();
  nlohmann::json result;
  try {
    result = command.run(session);
  } catch (const Error& error) {
    ranks->leave(error.what());
    // Outputs that differ and a gate that was missed are findings too.
    const bool finding = error.kind() == ErrorKind::verification || error.kind() == ErrorKind::quality;
    if (finding && recorded) write_record(session, words, clock, session.found, error.what());
    throw;
  } catch (const std::exception& error) {
    ranks->leave(error.what());
    throw;
  }
  if (!ranks->main()) return 0;
  if (session.trained_on_all()) result["split"] = "all";
  if (recorded) write_record(session, words, clock, result);
  session.log({{"event", "result"}, {"command", command.name()}, {"result", result}});
  if (common.json) show(stdout, json_text(result, 2) + "\n");
  flush_stdout();
  return 0;
}

// The command that the first word names; nothing where it is an option. Error{usage} when there is no such command;
// CLI11 would only say that one is required.
Command* find_command(const std::vector<std::string>& words, const std::vector<std::unique_ptr<Command>>& commands) {
  if (words.empty() || words[0].starts_with("-")) return nullptr;
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const auto& command : commands) {
    if (command->name() == words[0]) return command.get();
    names.emplace_back(command->name());
  }
  throw Error(ErrorKind::usage, words[0], "is not a command; did you mean {}? pare --help lists them",
              fmt::join(nearest(words[0], names, 2), " or "));
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("pare makes trained neural networks smaller without breaking them, and proves it.", "pare");
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text());
  CommonOptions common;
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto commands = all_commands();
  Command* chosen = find_command(words, commands);
  const bool own_words = chosen != nullptr && !chosen->takes_rest();
  if (const std::string recipe = own_words ? recipe_of(words) : ""; !recipe.empty())
    take_recipe(recipe, *chosen, common);
  for (const auto& command : commands) {
    auto* sub = app.add_subcommand(std::string(command->name()), std::string(command->summary()));
    FlagWriter writer(*sub);
    command->describe(writer);
    if (command->takes_rest()) {
      sub->prefix_command();
      common.describe_narration(writer);
    } else {
      common.describe(writer);
    }
  }
  try {
    auto arguments = words;
    if (own_words) {
      FlagLister lister;
      chosen->describe(lister);
      common.describe(lister);
      arguments = spread_lists(words, lister);
    }
    std::reverse(arguments.begin(), arguments.end());
    app.parse(arguments);
  } catch (const CLI::CallForVersion&) {
    show(stdout, version_text());
    flush_stdout();
    return 0;
  } catch (const CLI::Success& help) {
    app.exit(help);
    flush_stdout();
    return 0;
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    app.exit(error, out, out);
    show(stderr, out.str());
    return 2;
  }
  if (chosen != nullptr && app.got_subcommand(std::string(chosen->name()))) {
    if (chosen->takes_rest()) chosen->take_rest(app.get_subcommand(std::string(chosen->name()))->remaining());
    try {
      return run_command(*chosen, common, words);
    } catch (const Error& error) {  // the value that is wrong may not stand on the command line
      if (error.kind() != ErrorKind::usage || common.recipe.empty()) throw;
      throw Error(ErrorKind::usage, error.where(), "{} (options are also those of {})", error.message(), common.recipe);
    }
  }
  return 2;
}

}  // namespace

namespace {

// What a library said is for those who ask for detail.
std::string unforeseen(std::span<char*> words, std::string_view said) {
  const auto detailed = [](std::string_view word) { return word == "-v" || word == "--verbose"; };
  const bool tell = std::any_of(words.begin(), words.end(), detailed);
  return fmt::format("failed in a way that no check foresaw{}{}", tell ? ": " : "; -v shows what a library said of it",
                     tell ? said : "");
}

int fail(std::string_view message, ErrorKind kind = ErrorKind::failed) {
  const bool memory = kind == ErrorKind::memory;
  show(stderr,
       fmt::format("pare: {}{}\n", escape_controls(message), memory ? " (--max-memory GB sets the limit)" : ""));
  return exit_code(kind);
}

}  // namespace

int run_cli(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);  // `pare … | head` ends quietly
  handle_interrupts();
  const std::span words(argv, static_cast<size_t>(argc));
  try {
    return parse_and_run(argc, argv);
  } catch (const Error& error) {
    return fail(error.what(), error.kind());
  } catch (const OutOfMemory& refused) {
    return fail("a tensor " + to_string(refused), ErrorKind::memory);
  } catch (const c10::Error& error) {
    return fail(unforeseen(words, error.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    return fail("there is not enough memory");
  } catch (const std::length_error&) {
    return fail("something would be larger than any memory");
  } catch (const std::exception& error) {
    return fail(unforeseen(words, error.what()));
  }
}

}  // namespace pare::cli
