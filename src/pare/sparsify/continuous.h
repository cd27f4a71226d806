// Continuous sparsification (Savarese, Silva, Maire 2020).
//
//   min_{w,s}  L(f(c · m_β(s) ∘ w)) + λ Σ_i m_β(s_i),    m_β(s) = σ(β s),    β: 1 → β_T,    c = 1 / σ(s_init)
//
// A deterministic soft mask that hardens as β grows: β_t = β_T^(t / (N − 1)) at step t of N. c makes the network at
// step 0 (β = 1, s = s_init) the dense one exactly. At the end a weight is kept where s > 0, and c goes into it.
// s_init, not λ, sets the sparsity: logits begin at s_init < 0 and are pruned unless the loss pulls them above zero.
//
// Rounds: s ← min(β_T · s, s_init), so a removed weight stays removed and a kept one is undecided again; w goes on.
#pragma once

#include "pare/train/method.h"

namespace pare {

struct ContinuousOptions {
  double s_init = -0.1;
  double beta_final = 200;  // 1: the mask never hardens (an ablation)
  double lambda = 1e-8;
  double mask_rate = 20;  // learning rate of the logits, times that of the weights
};

class ContinuousSparsification : public Reparameterization {
 public:
  // `start`: the logits to begin with, by tensor name; s_init everywhere for those that are missing.
  ContinuousSparsification(const ContinuousOptions& options, std::vector<std::string> tensors, TensorMap start = {});

  TensorMap extra(const TensorMap& parameters) const override;
  TensorMap effective(const TensorMap& raw, const TrainPosition& at) const override;
  TensorMap finished(const TensorMap& raw, const TrainPosition& at) const override;
  at::Tensor penalty(const TensorMap& raw, const TrainPosition& at) const override;
  ParameterSettings settings(const std::string& name) const override;

  double beta(const TrainPosition& at) const;
  double rescale() const;  // c
  // Out of the raw tensors of a finished round:
  // By tensor name; those that `removed_before` (masks of earlier rounds) has removed are far below zero.
  TensorMap logits(const TensorMap& raw, const TensorMap& removed_before = {}) const;
  static TensorMap masks(const TensorMap& logits);  // s > 0
  // min(β_T s, s_init). Where the mask was cut to a count it decides, not the sign: what it kept is undecided again,
  // what it removed stays removed.
  TensorMap next_round(const TensorMap& logits, const TensorMap& masks) const;
  double undecided(const TensorMap& raw, const TrainPosition& at) const;  // part of the logits with |β s| < 4

 private:
  ContinuousOptions options_;
  std::vector<std::string> tensors_;
  TensorMap start_;
  mutable TensorMap soft_;  // the masks of the last effective(), for the penalty
};

}  // namespace pare
