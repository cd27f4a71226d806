#include "record.h"

#include <ATen/Parallel.h>
#include <fmt/chrono.h>

#include <algorithm>
#include <ostream>

#include "machine.h"
#include "pare/core/file.h"
#include "pare/error.h"
#include "pare/report/record.h"
#include "pare/train/run_store.h"
#include "pare/version.h"

namespace pare::cli {

namespace fs = std::filesystem;

namespace {

// A word as a shell takes it.
std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789-_=+.,:/@%") == std::string::npos;
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// To the millisecond: commands that follow each other at once keep their order.
std::string time_text(std::chrono::system_clock::time_point time) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  return fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(time)), milliseconds % 1000);
}

// The files that the options name, with their sizes.
std::vector<RecordedFile> files_of(const nlohmann::json& recipe) {
  std::vector<RecordedFile> files;
  const auto add = [&](const nlohmann::json& value) {
    if (!value.is_string()) return;
    const fs::path path = value.get<std::string>();
    std::error_code ignored;
    if (!path.empty() && fs::is_regular_file(path, ignored))
      files.push_back({path.string(), static_cast<int64_t>(fs::file_size(path, ignored))});
  };
  for (const auto& [key, value] : recipe.items()) {
    add(value);
    if (value.is_array())
      for (const auto& entry : value) add(entry);
  }
  return files;
}

// Files inside the run directory are named from there on: it may be copied and moved.
void shorten_paths(nlohmann::json& value, const fs::path& run) {
  if (!value.is_structured()) return;
  for (auto& [key, entry] : value.items()) {
    shorten_paths(entry, run);
    if (key != "file" || !entry.is_string()) continue;
    const fs::path inside = fs::path(entry.get<std::string>()).lexically_relative(run);
    if (!inside.empty() && *inside.begin() != "..") entry = inside.string();
  }
}

}  // namespace

bool Session::trained_on_all() const {
  return std::ranges::any_of(trainings, [](const RecordedTraining& training) { return training.split == "all"; });
}

fs::path Session::run_directory() {
  if (common.no_record) return {};
  if (run.empty()) {
    nlohmann::json definition = recipe;
    definition["version"] = kVersion;
    // What is not in the options but in the figures, and where relative paths begin.
    definition["threads"] = at::get_num_threads();
    definition["directory"] = fs::current_path().string();
    run = open_run(common.runs, command, definition).path;
  }
  return run;
}

void write_record(Session& session, const std::vector<std::string>& words, const RecordClock& clock,
                  const nlohmann::json& result, const std::string& error) {
  std::vector<std::string> quoted;
  for (const auto& word : words) quoted.push_back(shell_word(word));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - clock.steady;
  Record record{.path = {},
                .command = session.command,
                .command_line = fmt::format("pare {}", fmt::join(quoted, " ")),
                .options = session.recipe,
                .seed = session.common.seed,
                .started = time_text(clock.started),
                .seconds = seconds.count(),
                .version = kVersion,
                .machine = this_machine(),
                .directory = fs::current_path().string(),
                .files = files_of(session.recipe),
                .training = session.trainings,
                .result = result,
                .error = error};
  try {
    shorten_paths(record.result, session.run_directory());
    const std::string text = json_text(to_json(record), 2);
    const fs::path path = session.run_directory() / kRecordFile;
    write_file_atomically(path, [&](std::ostream& out) { out << text << "\n"; });
    session.detail("record in {}\n", path.string());
  } catch (const Error& error) {
    session.say("note: no record was kept: {}\n", error.what());
  }
}

}  // namespace pare::cli
