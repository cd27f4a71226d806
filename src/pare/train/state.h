// The state of a run: everything it needs to go on, as an uninterrupted run would have it at this point. The learning
// rate and random numbers are functions of the step and the seed, so the step stands for them.
#pragma once

#include <filesystem>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "pare/data/loader.h"
#include "pare/graph.h"
#include "pare/train.h"  // IWYU pragma: export

namespace pare {

// Sums over the steps of an epoch.
struct EpochSums {
  double loss = 0;
  double penalty = 0;
  int64_t samples = 0;
  int64_t correct = 0;
  double seconds = 0;
};

// Without the entries that are NaN.
nlohmann::json to_json(const EpochReport& report);

struct TrainState {
  TensorMap raw;         // trained
  TensorMap statistics;  // running statistics of batch norms
  TensorMap optimizer;
  TensorMap average;  // of the raw tensors, where asked for
  TensorMap best;     // raw tensors and statistics of the best epoch
  TensorMap method;   // Reparameterization::state()
  LoaderPosition position;
  int64_t step = 0;
  EpochSums sums;  // of the epoch that is under way
  double best_metric = -std::numeric_limits<double>::infinity();
  int64_t best_epoch = 0;
  std::vector<EpochReport> history;
  bool finished = false;
};

// What a run needs to begin where another was: its state without its history and its best epoch.
TrainState as_start(TrainState state);

// One safetensors file with a digest over its content, written atomically. `run` names what is being trained, so that a
// state is not taken for that of another run.
void write_train_state(const std::filesystem::path& path, const TrainState& state, const std::string& run);
// Error{format}: damaged, or of another run.
TrainState read_train_state(const std::filesystem::path& path, const std::string& run);

}  // namespace pare
