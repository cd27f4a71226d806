#include "pare/layerwise/solve_layer.h"

#include <ATen/ATen.h>

#include <limits>

#include "pare/calibrate/ridge.h"

namespace pare {

namespace {

// Moments of some of the rows.
struct KeptMoments {
  at::Tensor xx, xy, mean_x, mean_y;
};

KeptMoments kept_moments(const RowMoments& moments, const at::Tensor& kept) {
  const auto n = static_cast<double>(moments.count);
  return {moments.xx.index_select(0, kept).index_select(1, kept).div_(n), moments.xy.index_select(0, kept).div_(n),
          moments.mean_x.index_select(0, kept), moments.mean_y};
}

// The ρ whose solution on the fitted rows does best on the checked ones.
double chosen_ridge(const KeptMoments& fitted, const KeptMoments& checked, const at::Tensor& prior,
                    const SolveOptions& options) {
  const double scale = fitted.xx.diagonal().mean().item<double>();
  if (!(scale > 0)) return options.ridge;
  const auto [values, U] = at::linalg_eigh(fitted.xx);
  const at::Tensor D = at::mm(U.t(), fitted.xy - at::mm(fitted.xx, prior.t()));
  const at::Tensor lambda = values.clamp_min(0).unsqueeze(1);
  // What the prior leaves on the checked rows, and how a change V = Uᵀ (W − W₀)ᵀ moves it.
  const at::Tensor C = at::mm(at::mm(U.t(), checked.xx), U);
  const at::Tensor B = at::mm(U.t(), checked.xy - at::mm(checked.xx, prior.t()));
  const at::Tensor shift = checked.mean_x - fitted.mean_x;
  const at::Tensor own_shift = checked.mean_y - fitted.mean_y - at::mv(prior, shift);
  const at::Tensor turned = at::mv(U.t(), shift);
  double best = options.ridge, least = std::numeric_limits<double>::infinity();
  for (const double rho : options.choices) {
    const at::Tensor V = D / (lambda + rho * scale);
    const at::Tensor off = own_shift - at::mv(V.t(), turned);
    const double error = ((V * at::mm(C, V)).sum() - 2 * (V * B).sum() + off.square().sum()).item<double>();
    if (error < least) least = error, best = rho;
  }
  return best;
}

}  // namespace

LayerSolution solve_layer(const SplitMoments& moments, const at::Tensor& kept, const at::Tensor& prior,
                          const SolveOptions& options) {
  LayerSolution solution{.ridge = options.choices.size() == 1 ? options.choices.front() : options.ridge};
  const bool choose = options.choices.size() > 1 && moments.checked.count > 0 && moments.fitted.count > 0 &&
                      kept.numel() <= options.largest;
  if (choose)
    solution.ridge =
        chosen_ridge(kept_moments(moments.fitted, kept), kept_moments(moments.checked, kept), prior, options);
  const KeptMoments all = kept_moments(joined(moments.fitted, moments.checked), kept);
  solution.weight = ridge_towards(all.xx, all.xy, solution.ridge, prior);
  solution.bias = all.mean_y - at::mv(solution.weight, all.mean_x);
  return solution;
}

}  // namespace pare
