// A network's answers on samples that it has not learned from, against the original's.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "pare/graph.h"
#include "pare/layerwise/pieces.h"
#include "pare/observer.h"
#include "pare/run.h"
#include "pare/samples/samples.h"

namespace pare {

struct HeldOutScore {
  double score = 0;
  double drop = 0;
  double interval = 0;  // half the width of the drop's 95 % interval
};

// Top-1 accuracy where samples have a class each; without labels agreement with the original's top-1; of outputs that
// are no class scores closeness, 1 − ‖z − z'‖² / ‖z‖². The original's answers are kept where they take little memory;
// maps as large as pictures are made again.
class HeldOut {
 public:
  static constexpr int64_t kMostKept = int64_t{256} << 20;  // bytes of the original's answers

  HeldOut(const Graph& original, Samples samples, Observer& observer, int64_t most_kept = kMostKept);

  const std::string& metric() const { return metric_; }
  int64_t size() const { return samples_.size; }
  double original() const { return before_.mean().item<double>(); }
  HeldOutScore score(const Graph& graph) const;

 private:
  // Of piece p, as many rows as there are samples in it.
  at::Tensor answers(const Program& program, size_t p) const;
  at::Tensor original_answers(size_t p) const;
  at::Tensor values(const at::Tensor& answers, size_t p) const;  // of each sample
  at::Tensor all_values(const std::function<at::Tensor(size_t)>& answers) const;

  Samples samples_;
  Observer& observer_;
  Program program_;
  Pieces pieces_;
  std::vector<at::Tensor> kept_;  // the original's answers, or nothing
  bool labelled_ = false;
  at::Tensor before_;  // values
  std::string metric_;
};

// The mean of paired differences, each −1 to 1, and half the width of its 95 % interval: with a pair of each sign
// added, so that few samples without a difference do not look certain.
std::pair<double, double> mean_difference(const at::Tensor& differences);

}  // namespace pare
