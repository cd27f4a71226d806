// Going back to an early iterate: what lottery tickets, iterative pruning and weight rewinding train on.
//
//   ticket = train(m ∘ w_k, with the E − k epochs that the schedule has left after epoch k, in the same order of data)
//
// w_k is the dense run's after k epochs, together with what that run had besides: running statistics, the moments of
// the optimiser, the moving average. So a mask of ones gives the dense run again, bit for bit, from any k.
#pragma once

#include <optional>

#include "pare/workflow/train.h"

namespace pare {

struct EarlyIterate {
  int64_t epoch = 0;                // k
  Graph graph;                      // f(w_k)
  std::optional<TrainState> state;  // nothing: begin with the graph's values and an optimiser that remembers nothing

  const TrainState* start() const { return state ? &*state : nullptr; }
};

// The dense training that an early iterate is taken from. Every command and method that needs one has the same run.
TrainingJob dense_job(int64_t rewind);

// After `epoch` epochs of a run of dense_job(epoch) that began with `initial`.
// Error{usage} when the run ended before.
EarlyIterate early_iterate(const Graph& initial, const TrainingOutcome& dense, int64_t epoch);

// m ∘ w_k, and zeros in what the optimiser remembers of removed weights.
EarlyIterate masked(const EarlyIterate& early, const TensorMap& masks);

// What the schedule has left.
TrainingOptions training_from(const EarlyIterate& early, TrainingOptions training);

}  // namespace pare
