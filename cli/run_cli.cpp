#include <malloc.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <thread>

#include "command.h"
#include "flags.h"
#include "help.h"
#include "machine.h"
#include "pare/core/interrupt.h"
#include "pare/core/memory.h"
#include "pare/core/option_scope.h"
#include "pare/error.h"
#include "pare/zoo/nearest.h"
#include "record.h"
#include "toml_file.h"

namespace pare::cli {

void CommonOptions::describe(OptionVisitor& options) {
  options.heading("every command");
  options.essential().field("json", json,
                            "print one JSON document instead of tables; if the command fails, \"error\" says why");
  options.essential().field("threads", threads, "threads to compute with, at most as many as cores (0: all cores)");
  options.essential().field("seed", seed, "same seed, same machine, same result");
  options.field("max-memory", max_memory, "GB that tensors may take (0: three quarters of the machine's memory)");
  options.field("log", log, "append events to FILE.jsonl, one per line");
  describe_narration(options);
  options.essential().field("force", force, "overwrite existing files");
  options.field("recipe", recipe,
                "TOML file (or pipe) with the same keys as the flags; what the command line gives wins");
  options.field("print-config", print_config, "print the effective options as a recipe and stop");
  options.field("runs", runs, "directory of the run directories, where records and states are kept");
  options.field("no-record", no_record, "leave no record of the run in its directory");
}

void CommonOptions::describe_narration(OptionVisitor& options) {
  options.heading("every command");
  options.essential().field("quiet", quiet, "no narration");
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
  const nlohmann::json entries = read_toml_file(path, "recipe");
  if (entries.contains("recipe")) throw Error(ErrorKind::usage, path, "recipe: a recipe does not name another one");
  JsonReader reader(entries, path);
  command.describe(reader);
  common.describe(reader);
  reader.check_keys();
}

// The options that were asked for: flags of the command line, and what a recipe has otherwise than the default.
std::vector<std::string> given_options(const CLI::App& parsed, const nlohmann::json& asked,
                                       const nlohmann::json& usual) {
  std::vector<std::string> given;
  for (const auto& [name, value] : asked.items()) {
    const auto* flag = parsed.get_option_no_throw("--" + name);
    if (flag != nullptr && (flag->count() > 0 || value != usual.at(name))) given.push_back(name);
  }
  return given;
}

// Error{usage} for an option that this command, with these choices, would not look at.
void check_options_used(Command& command, CommonOptions& common, const CLI::App& parsed) {
  ScopeReader asked;
  command.describe(asked);
  common.describe(asked);
  JsonWriter usual;
  CommonOptions().describe(usual);
  for (const auto& fresh : all_commands())
    if (fresh->name() == command.name()) fresh->describe(usual);
  check_scopes(asked, usual.json(), given_options(parsed, asked.json(), usual.json()));
}

// What was printed has to arrive: Error{file} when it was lost on the way.
void flush_stdout() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw Error(ErrorKind::file, "stdout", "could not be written");
}

void prepare_computing(const CommonOptions& common, const RankPlace& place) {
  if (common.threads < 0) throw Error(ErrorKind::usage, "--threads", "expected 0 or more, found {}", common.threads);
  const auto cores = static_cast<int64_t>(std::max(std::thread::hardware_concurrency(), 1U));
  if (common.threads > cores && !common.quiet)
    show_formatted(stderr, "note: --threads {}: there are {} cores, and as many threads\n", common.threads, cores);
  const int64_t own = std::max<int64_t>(cores / place.local_size, 1);
  at::set_num_threads(static_cast<int>(common.threads > 0 ? std::min(common.threads, cores) : own));
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

// `found`: what there is to say of a command that ends with an error.
int run_command(Command& command, CommonOptions common, const std::vector<std::string>& words, nlohmann::json& found) {
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
    if (finding && recorded) write_record(session, words, clock, session.found, with_flags(error.what()));
    found = session.found;
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

// CLI11's words for what is wrong, with the option by name and what may have been meant.
std::string parse_message(const CLI::ParseError& error, const FlagLister& options) {
  const std::string text = error.what();
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    const size_t flag = text.find("--");
    if (flag == std::string::npos) return text;
    const std::string word = text.substr(flag, text.find_first_of(" =", flag) - flag);
    std::vector<std::string> names;
    for (const auto& known : options.flags) names.push_back("--" + known.name);
    if (names.empty()) return fmt::format("{}: there is no such option before the command", word);
    return fmt::format("{}: there is no such option; did you mean {}?", word,
                       fmt::join(nearest(word, names, 2), " or "));
  }
  if (const size_t twice = text.find(": At Most 1 required but received"); twice != std::string::npos)
    return text.substr(0, twice) + ": given more than once";
  return text;
}

int parse_and_run(int argc, char** argv, nlohmann::json& found) {
  CLI::App app("pare makes trained neural networks smaller without breaking them, and proves it.", "pare");
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text());
  app.set_help_all_flag("--help-all", "every option");
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
  FlagLister lister;
  if (own_words) {
    chosen->describe(lister);
    common.describe(lister);
  }
  try {
    auto arguments = own_words ? spread_lists(words, lister) : words;
    std::reverse(arguments.begin(), arguments.end());
    app.parse(arguments);
  } catch (const CLI::CallForVersion&) {
    show(stdout, version_text());
    flush_stdout();
    return 0;
  } catch (const CLI::Success& asked) {
    const bool all = dynamic_cast<const CLI::CallForAllHelp*>(&asked) != nullptr;
    show(stdout, chosen != nullptr ? command_help(*chosen, all, help_width()) : program_help(help_width()));
    flush_stdout();
    return 0;
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorKind::usage, chosen != nullptr ? std::string(chosen->name()) : "pare",
                "{} (pare {}--help says more)", parse_message(error, lister),
                chosen != nullptr ? std::string(chosen->name()) + " " : "");
  }
  if (chosen != nullptr && app.got_subcommand(std::string(chosen->name()))) {
    if (chosen->takes_rest()) chosen->take_rest(app.get_subcommand(std::string(chosen->name()))->remaining());
    try {
      if (own_words) check_options_used(*chosen, common, *app.get_subcommand(std::string(chosen->name())));
      return run_command(*chosen, common, words, found);
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
Error unforeseen(std::span<char*> words, std::string_view said) {
  const auto detailed = [](std::string_view word) { return word == "-v" || word == "--verbose"; };
  const bool tell = std::any_of(words.begin(), words.end(), detailed);
  return {ErrorKind::failed, "pare",
          fmt::format("failed in a way that no check foresaw{}{}",
                      tell ? ": " : "; -v shows what a library said about it", tell ? said : "")};
}

// The words after a command that starts others are theirs.
bool asks_for_json(const std::vector<std::string>& words) {
  const auto starts_others = [&](const auto& command) {
    return command->takes_rest() && !words.empty() && command->name() == words[0];
  };
  return std::ranges::none_of(all_commands(), starts_others) && std::ranges::find(words, "--json") != words.end();
}

// Of several ranks the first alone prints.
bool is_main_rank() {
  const char* rank = std::getenv("RANK");
  return rank == nullptr || std::string_view(rank) == "0";
}

// What needs less memory, of the options that the command has.
std::string memory_advice(const std::vector<std::string>& words) {
  std::vector<std::string> smaller;
  for (const auto& command : all_commands()) {
    if (words.empty() || command->name() != words[0]) continue;
    FlagLister options;
    command->describe(options);
    for (const auto& flag : options.flags)
      if (flag.name == "samples" || flag.name == "limit" || flag.name == "batch") smaller.push_back("--" + flag.name);
  }
  return fmt::format(" (--max-memory GB sets the limit{}{})", smaller.empty() ? "" : "; to need less, lower ",
                     fmt::join(smaller, " or "));
}

// With --json the document on stdout holds the error, beside what was found before it.
int ended(const Error& error, const std::vector<std::string>& words, nlohmann::json found) {
  const bool memory = error.kind() == ErrorKind::memory;
  show(stderr,
       fmt::format("pare: {}{}\n", escape_controls(with_flags(error.what())), memory ? memory_advice(words) : ""));
  const bool json = asks_for_json(words);
  if (!json || !is_main_rank()) return exit_code(error.kind());
  if (!found.is_object()) found = nlohmann::json::object();
  found["error"] = {{"kind", to_string(error.kind())},
                    {"where", with_flags(error.where())},
                    {"message", with_flags(error.message())},
                    {"exit_code", exit_code(error.kind())}};
  show(stdout, json_text(found, 2) + "\n");
  std::fflush(stdout);  // what cannot be written does not hide the error
  return exit_code(error.kind());
}

}  // namespace

int run_cli(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);  // `pare … | head` ends quietly
  handle_interrupts();
  const std::span all(argv, static_cast<size_t>(argc));
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  nlohmann::json found;
  try {
    return parse_and_run(argc, argv, found);
  } catch (const Error& error) {
    return ended(error, words, std::move(found));
  } catch (const OutOfMemory& refused) {
    return ended({ErrorKind::memory, "a tensor", to_string(refused)}, words, std::move(found));
  } catch (const c10::Error& error) {
    return ended(unforeseen(all, error.what_without_backtrace()), words, std::move(found));
  } catch (const std::bad_alloc&) {
    return ended({ErrorKind::failed, "memory", "there is not enough"}, words, std::move(found));
  } catch (const std::length_error&) {
    return ended({ErrorKind::failed, "memory", "something would be larger than any memory"}, words, std::move(found));
  } catch (const std::exception& error) {
    return ended(unforeseen(all, error.what()), words, std::move(found));
  }
}

}  // namespace pare::cli
