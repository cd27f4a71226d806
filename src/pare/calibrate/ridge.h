// Ridge regression from moments.
#pragma once

#include <ATen/core/Tensor.h>

namespace pare {

// A positive semi-definite matrix A [d, d] and right-hand sides B [d, q], in double: (A + ρ·mean(diag A)·I)⁻¹ B by
// Cholesky. Where A is so nearly singular that this fails, ρ grows tenfold until it does not; a zero A gives zero.
at::Tensor ridge_solve(const at::Tensor& a, const at::Tensor& b, double rho);

// min over W of tr (W A Wᵀ − 2 W B) + λ‖W − W₀‖², λ = ρ·mean(diag A): least squares drawn towards a prior W₀ [q, d]
// instead of towards zero. B [d, q] is the covariance of inputs and targets. Returns W [q, d].
at::Tensor ridge_towards(const at::Tensor& a, const at::Tensor& b, double rho, const at::Tensor& prior);

// y ≈ W x + c from mean and covariance of the two.
struct LinearFit {
  at::Tensor weight;  // [q, p]
  at::Tensor offset;  // [q]
};
LinearFit fit_linear(const at::Tensor& covariance_xx, const at::Tensor& covariance_xy, const at::Tensor& mean_x,
                     const at::Tensor& mean_y, double rho);

}  // namespace pare
