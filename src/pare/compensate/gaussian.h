// Regression of the removed channels on the kept ones in closed form, without any data: the inputs of the layer are
// taken as white, so that its pre-activations are jointly Gaussian with
//   mean m = β, deviation s = |γ|                         after a batch norm (m  = bias, s = ‖w‖ without)
//   correlation r_ij = cos(w_i, w_j)·sign(γ_i γ_j)
// For an activation g the coefficients c_k = E[g(m + s z) He_k(z)]/√k!, z ~ N(0, 1), give (Mehler's formula)
//   mean μ_i = c_0,   covariance C_ij = Σ_{k≥1} c_k(i) c_k(j) r_ij^k
// and ridge regression Z = C_RK (C_KK + ρ·tr(C_KK)/|K|·I)⁻¹, c = μ_R − Z μ_K.
// Where several layers make the channels, their folded filters side by side give a linear covariance instead.
#pragma once

#include <functional>

#include "pare/compensate/merge.h"

namespace pare {

struct GaussianOptions {
  double ridge = 1e-2;  // ρ
  int64_t terms = 24;
};

Merge gaussian(const MergeProblem& problem, const GaussianOptions& options);

// Mean [n] and covariance [n, n] of g(m + s z) for Gaussian z with unit variance and correlation r; `activation`
// nothing: the identity.
struct GaussianMoments {
  at::Tensor mean;
  at::Tensor covariance;
};
GaussianMoments activation_moments(const at::Tensor& m, const at::Tensor& s, const at::Tensor& correlation,
                                   const std::function<at::Tensor(const at::Tensor&)>& activation, int64_t terms);

// Z and c from the moments of all channels.
Merge merge_by_regression(const MergeProblem& problem, const at::Tensor& mean, const at::Tensor& covariance,
                          double ridge);

}  // namespace pare
