// Network slimming (Liu et al. 2017): training with ρ Σ |γ| over the scales of batch norms; channels with small scales
// are then removed for good and the rest is fine-tuned.
#pragma once

#include <string>
#include <vector>

#include "pare/train/method.h"

namespace pare {

// The scale tensors of the graph's batch norms. Error{unsupported} when there is none.
std::vector<std::string> batch_norm_scales(const Graph& graph);

class Slimming : public Reparameterization {
 public:
  Slimming(std::vector<std::string> scales, double rho) : scales_(std::move(scales)), rho_(rho) {}
  TensorMap effective(const TensorMap& raw, const TrainPosition& at) const override;
  at::Tensor penalty(const TensorMap& raw, const TrainPosition& at) const override;

 private:
  std::vector<std::string> scales_;
  double rho_;
};

}  // namespace pare
