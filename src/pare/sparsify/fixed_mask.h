// A mask that stays: removed weights are exactly zero, kept ones train. What fine-tuning and tickets train with.
#pragma once

#include "pare/train/method.h"
#include "pare/train/state.h"

namespace pare {

class FixedMask : public Reparameterization {
 public:
  explicit FixedMask(const TensorMap& masks);
  TensorMap effective(const TensorMap& raw, const TrainPosition& at) const override;

 private:
  mutable TensorMap masks_;  // as factors 0 and 1, laid out as the weights, so that a mask of ones changes no bit
};

// The state with zeros where the masks are false: in the weights, in their average, and in what the optimiser remembers
// of them.
TrainState masked(TrainState state, const TensorMap& masks);

}  // namespace pare
