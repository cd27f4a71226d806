#include "pare/report/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>

#include "pare/core/file.h"
#include "pare/error.h"
#include "pare/train/state.h"

namespace pare {

namespace fs = std::filesystem;

namespace {

std::vector<fs::path> record_files(const fs::path& run) {
  std::error_code ignored;
  if (fs::is_regular_file(run, ignored)) return {run};
  if (fs::is_regular_file(run / kRecordFile, ignored)) return {run / kRecordFile};
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(run, ignored))
    if (fs::is_regular_file(entry.path() / kRecordFile, ignored)) found.push_back(entry.path() / kRecordFile);
  if (found.empty())
    throw Error(ErrorKind::file, run.string(), "has no {}: name run directories, or a directory of them", kRecordFile);
  std::sort(found.begin(), found.end());
  return found;
}

// How deep objects and lists go, before anything is built of them: what walks through a record calls itself at every
// level. (A callback of the parser would see the levels too, but looks through all of a list after each of its
// objects.)
int64_t nesting_of(std::string_view text) {
  int64_t depth = 0;
  int64_t deepest = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') ++i;
    if (quoted) continue;
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if (c == ']' || c == '}') --depth;
  }
  return deepest;
}

}  // namespace

namespace {

nlohmann::json to_json(const RecordedMachine& machine) {
  return {{"cpu", machine.cpu},
          {"cores", machine.cores},
          {"threads", machine.threads},
          {"kernels", machine.kernels},
          {"libtorch", machine.libtorch}};
}

RecordedMachine machine_from(const nlohmann::json& object) {
  return {.cpu = text_at(object, "cpu"),
          .cores = whole_at(object, "cores").value_or(0),
          .threads = whole_at(object, "threads").value_or(0),
          .kernels = text_at(object, "kernels"),
          .libtorch = text_at(object, "libtorch")};
}

nlohmann::json to_json(const RecordedTraining& training) {
  auto history = nlohmann::json::array();
  for (const auto& epoch : training.history) history.push_back(pare::to_json(epoch));
  nlohmann::json object = {
      {"what", training.what}, {"run", training.run}, {"split", training.split}, {"history", history}};
  if (!training.chosen_on.empty()) object["chosen_on"] = training.chosen_on;
  return object;
}

EpochReport epoch_from(const nlohmann::json& object) {
  const double penalty = number_at(object, "penalty");
  return {.epoch = whole_at(object, "epoch").value_or(0),
          .step = whole_at(object, "step").value_or(0),
          .loss = number_at(object, "loss"),
          .penalty = std::isnan(penalty) ? 0 : penalty,
          .accuracy = number_at(object, "accuracy"),
          .validation = number_at(object, "validation"),
          .rate = number_at(object, "rate"),
          .seconds = number_at(object, "seconds"),
          .images_per_second = number_at(object, "images_per_second")};
}

RecordedTraining training_from(const nlohmann::json& object) {
  RecordedTraining training{.what = text_at(object, "what"),
                            .run = text_at(object, "run"),
                            .split = text_at(object, "split"),
                            .chosen_on = text_at(object, "chosen_on"),
                            .history = {}};
  for (const auto& epoch : list_at(object, "history")) training.history.push_back(epoch_from(epoch));
  return training;
}

}  // namespace

nlohmann::json to_json(const Record& record) {
  auto files = nlohmann::json::array();
  for (const auto& file : record.files) files.push_back({{"path", file.path}, {"bytes", file.bytes}});
  auto training = nlohmann::json::array();
  for (const auto& one : record.training) training.push_back(to_json(one));
  nlohmann::json content = {{"command", record.command},     {"command_line", record.command_line},
                            {"options", record.options},     {"seed", record.seed},
                            {"started", record.started},     {"seconds", record.seconds},
                            {"version", record.version},     {"machine", to_json(record.machine)},
                            {"directory", record.directory}, {"files", files},
                            {"training", training},          {"result", record.result}};
  if (!record.error.empty()) content["error"] = record.error;
  return content;
}

Record record_from(fs::path path, const nlohmann::json& content) {
  Record record{.path = std::move(path),
                .command = text_at(content, "command"),
                .command_line = text_at(content, "command_line"),
                .options = member_at(content, "options"),
                .seed = whole_at(content, "seed").value_or(0),
                .started = text_at(content, "started"),
                .seconds = number_at(content, "seconds"),
                .version = text_at(content, "version"),
                .machine = machine_from(member_at(content, "machine")),
                .directory = text_at(content, "directory"),
                .files = {},
                .training = {},
                .result = member_at(content, "result"),
                .error = text_at(content, "error")};
  for (const auto& file : list_at(content, "files"))
    if (const auto bytes = whole_at(file, "bytes"); bytes && !text_at(file, "path").empty())
      record.files.push_back({text_at(file, "path"), *bytes});
  for (const auto& training : list_at(content, "training")) record.training.push_back(training_from(training));
  return record;
}

std::string macs_at(const ModelCost& cost) {
  std::vector<std::string> inputs;
  for (const auto& extents : cost.inputs) inputs.push_back(fmt::format("{}", fmt::join(extents, "x")));
  return fmt::format("{}", fmt::join(inputs, ", "));
}

ModelEntry model_entry(std::string model, const ModelCost& cost, MetricList metrics) {
  return {.model = std::move(model),
          .parameters = cost.parameters,
          .macs = cost.macs,
          .macs_at = macs_at(cost),
          .bytes = cost.bytes,
          .metrics = std::move(metrics)};
}

nlohmann::json to_json(const ModelEntry& entry) {
  nlohmann::json object = {{"model", entry.model}};
  if (entry.parameters) object["parameters"] = *entry.parameters;
  if (entry.macs) object["macs"] = *entry.macs;
  if (!entry.macs_at.empty()) object["macs_at"] = entry.macs_at;
  if (entry.bytes) object["bytes"] = *entry.bytes;
  for (const auto& [name, value] : entry.metrics) object["metrics"][name] = value;
  return object;
}

ModelEntry model_entry_from(const nlohmann::json& object) {
  ModelEntry entry{.model = text_at(object, "model"),
                   .parameters = whole_at(object, "parameters"),
                   .macs = whole_at(object, "macs"),
                   .macs_at = text_at(object, "macs_at"),
                   .bytes = whole_at(object, "bytes"),
                   .metrics = {}};
  if (const auto& metrics = member_at(object, "metrics"); metrics.is_object())
    for (const auto& [name, value] : metrics.items())
      if (value.is_number()) entry.metrics.emplace_back(name, value.get<double>());
  return entry;
}

nlohmann::json to_json(const PrunedGroup& group) {
  return {{"name", group.name},
          {"total", group.total},
          {"kept", group.kept},
          {"reason", group.reason},
          {"compensation", group.compensation},
          {"loss", group.loss}};
}

PrunedGroup pruned_group_from(const nlohmann::json& object) {
  const double loss = number_at(object, "loss");
  return {.name = text_at(object, "name"),
          .total = whole_at(object, "total").value_or(0),
          .kept = whole_at(object, "kept").value_or(-1),
          .reason = text_at(object, "reason"),
          .compensation = text_at(object, "compensation"),
          .loss = std::isnan(loss) ? 0 : loss};
}

Record parse_record(const fs::path& path, std::string_view text) {
  constexpr int64_t kDeepest = 64;
  if (const int64_t depth = nesting_of(text); depth > kDeepest)
    throw Error(ErrorKind::format, path.string(), "is nested {} deep, expected at most {}", depth, kDeepest);
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || text_at(json, "command").empty())
    throw Error(ErrorKind::format, path.string(), "is not a record: expected a JSON object with a command");
  return record_from(path, json);
}

std::vector<Record> read_records(const std::vector<std::string>& runs,
                                 const std::function<void(const Error&)>& broken) {
  std::vector<Record> records;
  std::optional<Error> last;
  std::set<fs::path> seen;
  for (const auto& run : runs)
    for (const auto& file : record_files(run)) {
      std::error_code ignored;
      if (!seen.insert(fs::weakly_canonical(file, ignored)).second) continue;  // by another path
      try {
        records.push_back(parse_record(file, MappedFile::open(file)->text()));
      } catch (const Error& error) {
        if (!broken) throw;
        broken(error);
        last = error;
      }
    }
  if (records.empty() && last) throw *last;
  std::stable_sort(records.begin(), records.end(),
                   [](const Record& a, const Record& b) { return a.started < b.started; });
  return records;
}

const nlohmann::json& member_at(const nlohmann::json& object, const char* key) {
  static const nlohmann::json none;
  if (!object.is_object()) return none;
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

const nlohmann::json& list_at(const nlohmann::json& object, const char* key) {
  static const nlohmann::json none = nlohmann::json::array();
  const nlohmann::json& member = member_at(object, key);
  return member.is_array() ? member : none;
}

std::optional<int64_t> whole_at(const nlohmann::json& object, const char* key) {
  constexpr double most = 1e18;
  const double number = number_at(object, key);
  return std::abs(number) <= most ? std::optional(static_cast<int64_t>(number)) : std::nullopt;  // not a NaN
}

double number_at(const nlohmann::json& object, const char* key) {
  const auto& member = member_at(object, key);
  return member.is_number() ? member.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::string text_at(const nlohmann::json& object, const char* key) {
  const auto& member = member_at(object, key);
  return member.is_string() ? member.get<std::string>() : std::string();
}

}  // namespace pare
