#include "pare/compensate/gaussian.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "pare/calibrate/ridge.h"
#include "pare/prune/filters.h"

namespace pare {

namespace {

// The normal density on a fine grid, as weights that sum to one: exact enough for kinks as well.
constexpr int64_t kGridPoints = 4001;
constexpr double kGridReach = 9;

struct Grid {
  at::Tensor z;       // [points]
  at::Tensor weight;  // [points]
};

Grid normal_grid() {
  const at::Tensor z = at::linspace(-kGridReach, kGridReach, kGridPoints, at::kDouble);
  const at::Tensor density = at::exp(-0.5 * z.square());
  return {z, density / density.sum()};
}

}  // namespace

GaussianMoments activation_moments(const at::Tensor& m, const at::Tensor& s, const at::Tensor& correlation,
                                   const std::function<at::Tensor(const at::Tensor&)>& activation, int64_t terms) {
  const Grid grid = normal_grid();
  at::Tensor g = m.unsqueeze(1) + s.unsqueeze(1) * grid.z.unsqueeze(0);
  if (activation) g = activation(g);
  const at::Tensor weighted = g * grid.weight;
  GaussianMoments moments;
  moments.mean = weighted.sum(1);
  moments.covariance = at::zeros_like(correlation);
  // Normalised Hermite polynomials h_k = He_k/√k!: h_{k+1} = (z h_k − √k h_{k−1})/√(k+1).
  at::Tensor before = at::zeros_like(grid.z);
  at::Tensor h = at::ones_like(grid.z);
  at::Tensor power = at::ones_like(correlation);
  for (int64_t k = 1; k <= terms; ++k) {
    const double n = static_cast<double>(k);
    const at::Tensor next = (grid.z * h - std::sqrt(n - 1) * before) / std::sqrt(n);
    before = h;
    h = next;
    power = power * correlation;
    const at::Tensor c = at::mv(weighted, h);
    moments.covariance += at::outer(c, c) * power;
  }
  const at::Tensor variance = (g.square() * grid.weight).sum(1) - moments.mean.square();
  moments.covariance.diagonal().copy_(variance.clamp_min(0));
  return moments;
}

Merge merge_by_regression(const MergeProblem& problem, const at::Tensor& mean, const at::Tensor& covariance,
                          double ridge) {
  Merge merge{.Z = identity_merge(problem)};
  const at::Tensor R = at::tensor(problem.removed, at::kLong);
  const at::Tensor K = at::tensor(problem.kept, at::kLong);
  const auto block = [&](const at::Tensor& rows, const at::Tensor& columns) {
    return covariance.index_select(0, rows).index_select(1, columns);
  };
  const LinearFit fit = fit_linear(block(K, K), block(K, R), mean.index_select(0, K), mean.index_select(0, R), ridge);
  merge.Z.index_copy_(0, R, fit.weight);
  merge.c = at::zeros_like(mean).index_copy(0, R, fit.offset);
  merge.merged = static_cast<int64_t>(problem.removed.size());
  return merge;
}

Merge gaussian(const MergeProblem& problem, const GaussianOptions& options) {
  const GroupFilters filters = filters_of(problem);
  if (!filters.single() && !filters.norm) {
    const at::Tensor rows = filters.folded().to(at::kDouble);
    return merge_by_regression(problem, at::zeros({rows.size(0)}, at::kDouble), at::mm(rows, rows.t()), options.ridge);
  }
  const at::Tensor vectors =
      (filters.depthwise.defined() || filters.norm ? filters.vectors() : filters.weight).to(at::kDouble);
  const at::Tensor norm = vectors.norm(2, {1});
  const at::Tensor unit = vectors / at::where(norm > 0, norm, at::ones_like(norm)).unsqueeze(1);
  at::Tensor correlation = at::mm(unit, unit.t()).clamp(-1, 1);
  at::Tensor m = filters.bias;
  at::Tensor s = norm;
  if (filters.norm) {
    m = filters.norm->beta;
    s = filters.norm->gamma.abs();
    const at::Tensor sign = at::sign(filters.norm->gamma);
    correlation = correlation * at::outer(sign, sign);
  }
  const GaussianMoments moments = activation_moments(m, s, correlation, filters.activation, options.terms);
  return merge_by_regression(problem, moments.mean, moments.covariance, options.ridge);
}

}  // namespace pare
