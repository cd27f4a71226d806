// What a method adds to training: a reparameterisation and an objective. The loop (train/train.h) calls these two and
// never learns a method's name.
//
//   raw tensors ──effective()──▶ the graph's parameters ──objective──▶ loss  (+ penalty(raw))
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "pare/data/loader.h"
#include "pare/graph.h"
#include "pare/run.h"
#include "pare/train/optimizer.h"

namespace pare {

// Where a run is.
struct TrainPosition {
  int64_t step = 0;   // done so far in the whole run
  int64_t steps = 0;  // of the whole run
  int64_t steps_per_epoch = 0;
};

class Reparameterization {
 public:
  virtual ~Reparameterization() = default;

  // Tensors trained besides the graph's own, under names that it does not use (mask scores, say).
  virtual TensorMap extra(const TensorMap& parameters) const;
  // The graph's parameters out of the raw tensors, differentiably. Raw tensors with the graph's names may be left as
  // they are: what is returned is laid over the graph.
  virtual TensorMap effective(const TensorMap& raw, const TrainPosition& at) const = 0;
  // The same for evaluation and for the finished network: hard masks instead of soft ones, say.
  virtual TensorMap finished(const TensorMap& raw, const TrainPosition& at) const { return effective(raw, at); }
  // Added to the loss; undefined: nothing.
  virtual at::Tensor penalty(const TensorMap& raw, const TrainPosition& at) const;
  virtual ParameterSettings settings(const std::string& name) const;
  // After the optimiser's step; may write into `raw` (without gradients) and make the optimiser forget.
  virtual void after_step(TensorMap& raw, Optimizer& optimizer, const TrainPosition& at);
  // What must survive a restart besides the raw tensors.
  virtual TensorMap state() const { return {}; }
  virtual void restore(const TensorMap& state);
};

// Raw tensors are the parameters.
class PlainParameters : public Reparameterization {
 public:
  TensorMap effective(const TensorMap& raw, const TrainPosition& at) const override;
};

// A batch's images as the graph's input wants them: flat, or channels-last, in its dtype.
at::Tensor input_of(const Graph& graph, const at::Tensor& images);

// One step's surroundings.
struct ForwardPass {
  const Program& program;
  const TensorMap& parameters;  // effective
  const Batch& batch;
  TensorMap* statistics;  // to be handed to the run
  TrainPosition at;
  std::function<at::Tensor(const at::Tensor&)> sum_over_ranks;  // as in RunOptions

  at::Tensor input() const { return input_of(program.graph(), batch.images); }
  // One run in training mode, of the batch or of `input`; `taps` as in RunOptions.
  RunResult run(std::vector<std::string> taps = {}) const { return run(input(), std::move(taps)); }
  RunResult run(const at::Tensor& input, std::vector<std::string> taps) const;
};

struct Loss {
  at::Tensor value;   // a scalar with gradient
  at::Tensor logits;  // [n, classes], of score_value() (analysis/scores.h), for the metrics
};

class Objective {
 public:
  virtual ~Objective() = default;
  virtual std::vector<std::string> taps() const { return {}; }  // values that it asks runs for
  virtual Loss operator()(const ForwardPass& pass) = 0;
};

// Cross-entropy for labels int64 [n]; the mean binary cross-entropy of every class for labels [n, K].
class ClassificationObjective : public Objective {
 public:
  explicit ClassificationObjective(double label_smoothing = 0) : label_smoothing_(label_smoothing) {}
  Loss operator()(const ForwardPass& pass) override;

 private:
  double label_smoothing_;
};

// Of logits [n, K, 1…] and labels as above.
at::Tensor classification_loss(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing = 0);

}  // namespace pare
