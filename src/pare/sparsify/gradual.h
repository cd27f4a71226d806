// Gradual magnitude pruning (Zhu & Gupta 2017): from step t0 on, every dt steps, the mask is made anew from |w| at
//
//   s_t = s_f − s_f · (1 − (t − t0) / (n dt))³         t = t0, t0 + dt, …, t0 + n dt
//
// over the part [begin, end] of the run. Where the window is shorter than dt, dt is the window, so that the last mask
// has the sparsity s_f however short the run is. Removed weights are set to zero and the optimiser forgets them, so
// that they do not come back.
#pragma once

#include "pare/sparsify/fixed_mask.h"
#include "pare/sparsify/mask.h"
#include "pare/train/method.h"

namespace pare {

struct GradualOptions {
  double sparsity = 0.9;
  double begin = 0.1;  // of the run
  double end = 0.75;
  int64_t every = 20;  // steps
};

// The cubic at step t of a run; 0 before it begins, the final sparsity from its end on.
double gradual_sparsity(const GradualOptions& options, int64_t step, int64_t steps);

class GradualPruning : public Reparameterization {
 public:
  GradualPruning(const GradualOptions& options, const MaskOptions& mask_options, std::vector<std::string> tensors);

  TensorMap effective(const TensorMap& raw, const TrainPosition& at) const override {
    return fixed_.effective(raw, at);
  }
  void after_step(TensorMap& raw, Optimizer& optimizer, const TrainPosition& at) override;
  TensorMap state() const override { return masks_; }
  void restore(const TensorMap& state) override { set_masks(state); }

  const TensorMap& masks() const { return masks_; }  // empty before the first pruning

 private:
  void set_masks(const TensorMap& masks);

  GradualOptions options_;
  MaskOptions mask_options_;
  std::vector<std::string> tensors_;
  TensorMap masks_;
  FixedMask fixed_{{}};  // until the next pruning
};

}  // namespace pare
