#include "pare/calibrate/ridge.h"

#include <ATen/ATen.h>

namespace pare {

namespace {

// (A + λI)⁻¹ B, and whether that could be done.
bool solve_regularized(const at::Tensor& a, const at::Tensor& b, double lambda, at::Tensor& x) {
  at::Tensor regular = a.clone();
  regular.diagonal().add_(lambda);
  const auto [factor, info] = at::linalg_cholesky_ex(regular);
  regular = at::Tensor();
  if (info.item<int>() != 0) return false;
  x = at::cholesky_solve(b, factor);
  return at::isfinite(x).all().item<bool>();
}

double mean_diagonal(const at::Tensor& a) {
  const double mean = a.diagonal().mean().item<double>();
  return mean > 0 ? mean : 0;
}

}  // namespace

at::Tensor ridge_solve(const at::Tensor& a, const at::Tensor& b, double rho) {
  const double scale = mean_diagonal(a);
  if (!(scale > 0)) return at::zeros_like(b);
  at::Tensor x;
  for (double r = rho; r<1e6; r = r> 0 ? 10 * r : 1e-9)
    if (solve_regularized(a, b, r * scale, x)) return x;
  return at::zeros_like(b);
}

at::Tensor ridge_towards(const at::Tensor& a, const at::Tensor& b, double rho, const at::Tensor& prior) {
  // With W = W₀ + D the gradient is D (A + λI) = Bᵀ − W₀ A.
  const at::Tensor residual = at::addmm(b, a, prior.t(), 1, -1);
  return prior + ridge_solve(a, residual, rho).t();
}

LinearFit fit_linear(const at::Tensor& covariance_xx, const at::Tensor& covariance_xy, const at::Tensor& mean_x,
                     const at::Tensor& mean_y, double rho) {
  LinearFit fit;
  fit.weight = ridge_solve(covariance_xx, covariance_xy, rho).t();
  fit.offset = mean_y - at::mv(fit.weight, mean_x);
  return fit;
}

}  // namespace pare
