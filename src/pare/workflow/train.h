// A training run from end to end: a directory of its own, a state that it goes on from, logs. Every command that trains
// goes through it.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "pare/core/options.h"
#include "pare/train/run_store.h"
#include "pare/train/train.h"

namespace pare {

struct TrainingJob {
  std::string kind = "train";                    // names the run's directory
  std::string what;                              // names the stage to people; empty: the only one
  std::string definition;                        // what a method adds to the run's definition
  Reparameterization* parameters = nullptr;      // as in TrainParts
  ProcessGroup* ranks = nullptr;                 // null: alone
  Objective* objective = nullptr;                // null: classification, with the label smoothing of the options
  std::vector<int64_t> keep_epochs;              // the state after these is kept as well
  const TrainState* start = nullptr;             // begins with this, after train.first_epoch epochs of another run
  bool keep_last = false;                        // the last epoch is kept whatever the validation says
  bool awaited = false;                          // all processes that share the work need it before anything else
  std::function<void()> waits;                   // another process trains the same, and this one waits for it
  std::function<void(bool done_already)> begin;  // before anything is trained
  std::function<void(const StepReport&)> on_step;
  std::function<void(const EpochReport&)> on_epoch;
  std::function<bool()> stop;
};

struct TrainingOutcome {
  Graph graph;  // the best epoch's where there is a validation, else the last; with the data's normalisation
  TrainState state;
  RunDirectory run;
  int64_t resumed_at = 0;     // steps already done when it began
  bool done_already = false;  // an earlier run had finished

  std::map<int64_t, TrainState> kept;  // where there is no directory: those of job.keep_epochs
  // The state after one of job.keep_epochs.
  TrainState after_epoch(int64_t epoch) const;
};

// Error{interrupted} when stopped: the state is stored and the same call goes on with it.
TrainingOutcome run_training(const Graph& graph, const Dataset& data, const TrainingOptions& options,
                             const TrainingJob& job);

// How a stage of a method is trained: run_training, or with feedback.
using Trainer = std::function<TrainingOutcome(const Graph&, const Dataset&, const TrainingOptions&, TrainingJob)>;

// run_training watched by an observer: its progress, cancellation and ranks.
Trainer observed_training(Observer& observer);

TrainingResult result_of(TrainingOutcome outcome);

// The data without and with a part of `fraction` of its images, drawn by the seed: the same part of every class, unless
// the data is multi-label.
struct DatasetParts {
  Dataset rest;
  Dataset held_out;
};
DatasetParts hold_out(const Dataset& data, double fraction, uint64_t seed);

}  // namespace pare
