// What repair learns with: Adam at a rate relative to each tensor's size, and the mean of the weights over about the
// last tenth of the steps, which is what is judged and kept.
#pragma once

#include <cmath>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "pare/graph.h"
#include "pare/train/optimizer.h"

namespace pare {

// The rate at a point of the work (0 to 1), falling to nothing as a cosine.
inline double cosine_rate(double rate, double done) { return 0.5 * rate * (1 + std::cos(std::numbers::pi * done)); }

class AveragedAdam {
 public:
  // Learns the floating-point tensors among `names`. A step of rate 1 moves a number by about the root mean square of
  // its tensor; of tensors of nearly nothing, as biases are that were added, by a tenth of what is usual in the
  // network.
  AveragedAdam(const Graph& graph, const std::vector<std::string>& names);

  bool empty() const { return raw_.empty(); }
  const TensorMap& raw() const { return raw_; }            // as they are now, with gradients
  const TensorMap& averaged() const { return averaged_; }  // empty before the first step
  void step(const at::Tensor& loss, double rate);

 private:
  Optimizer optimizer_;
  TensorMap raw_, averaged_;
  std::map<std::string, double> size_;
  int64_t steps_ = 0;
};

}  // namespace pare
