// L0 regularisation by hard-concrete gates (Louizos, Welling, Kingma 2018), one gate per weight.
//
//   u ~ U(ε, 1 − ε),  v = σ((log u − log(1 − u) + log α) / b),  z = min(1, max(0, v (ζ − γ) + γ)),  w_eff = z ∘ w
//   penalty  λ Σ_i P(z_i ≠ 0) = λ Σ_i σ(log α_i − b log(−γ / ζ))
//   at test  ẑ = min(1, max(0, σ(log α) (ζ − γ) + γ))
//
// b = 2/3, γ = −0.1, ζ = 1.1. Before fine-tuning the mask is fixed at ẑ > 0.
#pragma once

#include "pare/train/method.h"

namespace pare {

struct HardConcreteOptions {
  double lambda = 2e-5;
  double drop_rate = 0.5;  // log α begins at log((1 − p) / p)
  double gate_rate = 0.5;  // learning rate of the gates, times that of the weights
  bool adam = true;        // gates by Adam instead of the weights' optimiser, which hardly moves them
};

class HardConcrete : public Reparameterization {
 public:
  HardConcrete(const HardConcreteOptions& options, std::vector<std::string> tensors);

  TensorMap extra(const TensorMap& parameters) const override;
  TensorMap effective(const TensorMap& raw, const TrainPosition& at) const override;
  TensorMap finished(const TensorMap& raw, const TrainPosition& at) const override;
  at::Tensor penalty(const TensorMap& raw, const TrainPosition& at) const override;
  ParameterSettings settings(const std::string& name) const override;
  void after_step(TensorMap& raw, Optimizer& optimizer, const TrainPosition& at) override;

  TensorMap masks(const TensorMap& raw) const;  // ẑ > 0

  static at::Tensor sample(const at::Tensor& log_alpha, const at::Tensor& u);
  static at::Tensor test_gate(const at::Tensor& log_alpha);
  static at::Tensor probability_nonzero(const at::Tensor& log_alpha);

 private:
  HardConcreteOptions options_;
  std::vector<std::string> tensors_;
};

}  // namespace pare
