// A network's answers on samples that it has not learned from, against the original's.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/samples/samples.h"

namespace pare {

struct HeldOutScore {
  double score = 0;
  double drop = 0;
  double interval = 0;  // half the width of the drop's 95 % interval
};

// Top-1 accuracy where samples have a class each; without labels agreement with the original's top-1; of outputs that
// are no class scores closeness, 1 − ‖z − z'‖² / ‖z‖².
class HeldOut {
 public:
  HeldOut(const Graph& original, Samples samples, Observer& observer);

  const std::string& metric() const { return metric_; }
  int64_t size() const { return samples_.size; }
  double original() const { return before_.mean().item<double>(); }
  HeldOutScore score(const Graph& graph) const;

 private:
  at::Tensor answers(const Graph& graph) const;
  at::Tensor values(const at::Tensor& answers) const;  // of each sample

  Samples samples_;
  Observer& observer_;
  at::Tensor original_;  // answers
  at::Tensor labels_;    // undefined without
  at::Tensor before_;    // values
  std::string metric_;
};

// The mean of paired differences, each −1 to 1, and half the width of its 95 % interval: with a pair of each sign
// added, so that few samples without a difference do not look certain.
std::pair<double, double> mean_difference(const at::Tensor& differences);

}  // namespace pare
