// Run directories: one per distinct run, named by the hash of what defines it, so that the same command finds its own.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "pare/data/dataset.h"
#include "pare/graph.h"
#include "pare/train/state.h"

namespace pare {

// Raised whenever a change makes the same definition give other results: runs of before are then other runs.
constexpr int kRunFormat = 2;

struct RunDirectory {
  std::filesystem::path path;  // RUNS/KIND-HASH
  std::string hash;            // of the definition: 64 hexadecimal digits

  std::filesystem::path state() const { return path / "state.safetensors"; }
};

// Makes the directory and writes definition.json into it. Error{file} when it cannot be made.
RunDirectory open_run(const std::filesystem::path& runs, const std::string& kind, const nlohmann::json& definition);

// What identifies a model and a data set in a definition.
std::string fingerprint(const Graph& graph);
std::string fingerprint(const TensorMap& tensors);
std::string fingerprint(const TrainState& start);  // of what a run begins with: its tensors and its place
nlohmann::json fingerprint(const Dataset& data);

// log.jsonl and log.csv of the directory: one line per epoch, written anew, so that a run killed and resumed has no
// line twice.
void write_training_logs(const RunDirectory& run, const std::vector<EpochReport>& history);

}  // namespace pare
