// The solution of one layer against the same by dense least squares, and the choice of the ridge against a search.
#include "pare/layerwise/solve_layer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/calibrate/ridge.h"

namespace pare {
namespace {

struct Problem {
  at::Tensor x, t, prior, kept;
};

Problem random_problem(int64_t rows) {
  at::manual_seed(5);
  const at::Tensor x = at::randn({rows, 6}, at::kDouble) + 3;
  return {x, at::mm(x, at::randn({6, 3}, at::kDouble)) + at::randn({rows, 3}, at::kDouble),
          at::randn({3, 4}, at::kDouble), at::tensor({0, 2, 3, 5}, at::kLong)};
}

SplitMoments split(const Problem& p, int64_t fitted) {
  const int64_t rest = p.x.size(0) - fitted;
  return {row_moments(p.x.narrow(0, 0, fitted), p.t.narrow(0, 0, fitted)),
          row_moments(p.x.narrow(0, fitted, rest), p.t.narrow(0, fitted, rest))};
}

TEST(SolveLayer, IsRidgeRegressionOnAllRows) {
  const Problem p = random_problem(50);
  const double rho = 0.2;
  const LayerSolution found = solve_layer(split(p, 40), p.kept, p.prior, {.ridge = rho, .choices = {}});
  // The gradient of mean ‖W h + b − t‖² + λ ‖W − W₀‖² vanishes.
  const at::Tensor h = p.x.index_select(1, p.kept);
  const at::Tensor residual = at::mm(h, found.weight.t()) + found.bias - p.t;
  const at::Tensor centred = h - h.mean(0);
  const double lambda = rho * centred.square().mean().item<double>();
  const at::Tensor gradient = at::mm(residual.t(), centred) / 50 + lambda * (found.weight - p.prior);
  EXPECT_LT(gradient.abs().max().item<double>(), 1e-9);
  EXPECT_LT(residual.mean(0).abs().max().item<double>(), 1e-9);
}

TEST(SolveLayer, ChoosesTheRidgeThatDoesBestOnTheCheckedRows) {
  const Problem p = random_problem(30);
  const std::vector<double> choices = {1e-6, 1e-3, 0.1, 1, 10, 1e3};
  const LayerSolution found = solve_layer(split(p, 12), p.kept, p.prior, {.choices = choices});
  const at::Tensor h = p.x.index_select(1, p.kept), fit = h.narrow(0, 0, 12), check = h.narrow(0, 12, 18);
  const at::Tensor t = p.t.narrow(0, 0, 12);
  double best = 0, least = 1e300;
  for (const double rho : choices) {
    const at::Tensor dx = fit - fit.mean(0), dt = t - t.mean(0);
    const at::Tensor W = ridge_towards(at::mm(dx.t(), dx) / 12, at::mm(dx.t(), dt) / 12, rho, p.prior);
    const at::Tensor b = t.mean(0) - at::mv(W, fit.mean(0));
    const double error = (at::mm(check, W.t()) + b - p.t.narrow(0, 12, 18)).square().sum().item<double>();
    if (error < least) least = error, best = rho;
  }
  EXPECT_EQ(found.ridge, best);
}

}  // namespace
}  // namespace pare
