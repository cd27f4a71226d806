// Result records: what a command did, as one JSON file in its run directory. Commands write a Record and `report` reads
// one; the names of its entries stand in record.cpp, once for both. Its result is what --json prints, a document of
// each command's own (docs/schemas); what several of them say in the same way, of models and of groups of channels, is
// a type here as well.
//
// Paths of pictures inside the run directory are relative to it, so that it can be copied and moved.
//
// Records may come from anywhere: a missing or odd entry is left out, and only a file that is no JSON object at all, or
// one nested too deep, is an error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pare/evaluate.h"
#include "pare/inspect.h"
#include "pare/prune.h"
#include "pare/train.h"

namespace pare {

class Error;

constexpr const char* kRecordFile = "record.json";

struct RecordedMachine {
  std::string cpu;
  int64_t cores = 0;
  int64_t threads = 0;
  std::string kernels;  // that ATen uses: "AVX2"
  std::string libtorch;
};

struct RecordedFile {
  std::string path;
  int64_t bytes = 0;
};

struct RecordedTraining {
  std::string what;
  std::string run;        // its directory
  std::string split;      // of the data: what it learned from
  std::string chosen_on;  // by what the epoch was chosen, where one was
  std::vector<EpochReport> history;
};

struct Record {
  std::filesystem::path path;  // of the file; what it names is looked for beside it, and where the command ran
  std::string command;
  std::string command_line;
  nlohmann::json options = nlohmann::json::object();  // its recipe
  int64_t seed = 0;
  std::string started;
  double seconds = 0;
  std::string version;
  RecordedMachine machine;
  std::string directory;  // in which it ran: relative paths begin there
  std::vector<RecordedFile> files;
  std::vector<RecordedTraining> training;
  nlohmann::json result;
  std::string error;  // why it failed, where it measured and the outcome was bad
};

nlohmann::json to_json(const Record& record);  // without its path
Record record_from(std::filesystem::path path, const nlohmann::json& content);

// What a result says of one model, in `before`, `after` or `models`; what is not known is not written.
struct ModelEntry {
  std::string model;  // its file, or its name
  std::optional<int64_t> parameters, macs;
  std::string macs_at;           // the shapes of a sample at which MACs were counted: "1x3x224x224"
  std::optional<int64_t> bytes;  // of the weights
  MetricList metrics;
};
std::string macs_at(const ModelCost& cost);
ModelEntry model_entry(std::string model, const ModelCost& cost, MetricList metrics = {});
nlohmann::json to_json(const ModelEntry& entry);
ModelEntry model_entry_from(const nlohmann::json& object);

// What a result says of a group of channels, in `groups`.
nlohmann::json to_json(const PrunedGroup& group);
PrunedGroup pruned_group_from(const nlohmann::json& object);

// Each is a record's file, a run directory, or a directory of run directories. In the order in which they were started.
// Error{file} where there is none. A file that is not a record is left out and handed to `broken`; Error{format}
// without that, or where there is no other.
std::vector<Record> read_records(const std::vector<std::string>& runs,
                                 const std::function<void(const Error&)>& broken = {});
Record parse_record(const std::filesystem::path& path, std::string_view text);

// Entries of whatever type, without surprises: NaN, "" and null where they are not there or are something else.
double number_at(const nlohmann::json& object, const char* key);
std::string text_at(const nlohmann::json& object, const char* key);
const nlohmann::json& member_at(const nlohmann::json& object, const char* key);
const nlohmann::json& list_at(const nlohmann::json& object, const char* key);  // an empty list where there is none
std::optional<int64_t> whole_at(const nlohmann::json& object, const char* key);

}  // namespace pare
