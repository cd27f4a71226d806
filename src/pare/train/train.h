// The training loop. It takes a reparameterisation and an objective (train/method.h) and knows no method by name.
//
//   TrainResult result = train(graph, data, {.epochs = 5}, {.objective = &objective});
//
// A run is a function of the graph, the data, the options and the seed: the loader's batches, the learning rate and the
// random numbers of a step depend only on the seed and the step. With the same threads on the same machine a run that
// was stopped and goes on from its state ends with the same bits.
//
// Several ranks (dist/process_group.h) share every batch: each takes its part, gradients are summed while the backward
// pass runs, and all make the same step. The same batch and seed give the same run on any number of ranks up to
// rounding, but for dropout, and for batch norms unless their statistics are synchronised.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pare/analysis/parameters.h"
#include "pare/core/options.h"
#include "pare/data/dataset.h"
#include "pare/dist/process_group.h"
#include "pare/graph.h"
#include "pare/train/method.h"
#include "pare/train/optimizer.h"
#include "pare/train/schedule.h"
#include "pare/train/state.h"

namespace pare {

// A step that was just done.
struct StepReport {
  TrainPosition at;
  int64_t epoch = 0;  // from 1
  double loss = 0;    // of its batch
  double rate = 0;
  EpochSums sums;  // of its epoch so far
};

struct TrainParts {
  Reparameterization* parameters = nullptr;  // null: PlainParameters
  Objective* objective = nullptr;            // null: ClassificationObjective
  ProcessGroup* ranks = nullptr;             // null: alone. Only rank 0 calls what follows, but for `stop`.
  // The larger the better; called after every epoch with the network as it would be used.
  std::function<double(const Graph&)> validate;
  std::function<void(const StepReport&)> on_step;
  std::function<void(const TrainState&)> on_epoch;  // the state after it; its report is the last of the history
  std::function<void(const TrainState&)> save;      // after every epoch, and when stopped
  std::function<bool()> stop;  // asked at every step; true on any rank: save, then Error{interrupted} on all
};

struct TrainResult {
  Graph last;
  Graph best;  // by the validation; the last where there is none
  TrainState state;
};

// Goes on from `from` where given. Error{failed} when the loss is not finite: it names the step and the layers' norms,
// and what was saved before stays.
TrainResult train(const Graph& graph, const Dataset& data, const TrainOptions& options, const TrainParts& parts = {},
                  const TrainState* from = nullptr);

}  // namespace pare
