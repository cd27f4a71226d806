// Moments and ridge regression against the formulas on the data themselves.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/calibrate/moments.h"
#include "pare/calibrate/ridge.h"

namespace pare {
namespace {

double distance(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST(Moments, OfBatchesAreThoseOfAll) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({9001, 5}) * at::tensor({1.0F, 2.0F, 3.0F, 0.1F, 10.0F}) + 7;
  Moments moments;
  for (int64_t begin = 0; begin < 9000; begin += 3000) moments.add(x.narrow(0, begin, 3000));
  moments.add(x.narrow(0, 9000, 1));
  const at::Tensor d = x.to(at::kDouble);
  const at::Tensor centred = d - d.mean(0);
  EXPECT_EQ(moments.count(), 9001);
  EXPECT_LE(distance(moments.mean(), d.mean(0)), 1e-5);
  EXPECT_LE(distance(moments.covariance(), at::mm(centred.t(), centred) / 9001), 1e-3);
}

TEST(Moments, RowsArePlaces) {
  const at::Tensor x = at::arange(24, at::kFloat).reshape({2, 3, 2, 2});
  const at::Tensor rows = rows_of(x, 1);
  ASSERT_EQ(rows.sizes(), (std::vector<int64_t>{8, 3}));
  EXPECT_EQ(rows[5][2].item<float>(), x[1][2][0][1].item<float>());
}

TEST(Ridge, SolvesTheNormalEquations) {
  at::manual_seed(2);
  const at::Tensor x = at::randn({200, 6}, at::kDouble);
  const at::Tensor y = at::randn({200, 3}, at::kDouble);
  CrossMoments moments;
  moments.add(x, y);
  const LinearFit fit =
      fit_linear(moments.covariance_xx(), moments.covariance_xy(), moments.mean_x(), moments.mean_y(), 0);
  // Residuals of least squares with an intercept are orthogonal to the inputs and sum to nothing.
  const at::Tensor residual = y - (at::mm(x, fit.weight.t()) + fit.offset);
  EXPECT_LE(at::mm(x.t(), residual).abs().max().item<double>(), 1e-9);
  EXPECT_LE(residual.sum(0).abs().max().item<double>(), 1e-9);
}

TEST(Ridge, DrawsTowardsThePrior) {
  at::manual_seed(3);
  const at::Tensor x = at::randn({50, 4}, at::kDouble);
  const at::Tensor y = at::randn({50, 2}, at::kDouble);
  const at::Tensor prior = at::randn({2, 4}, at::kDouble);
  const at::Tensor a = at::mm(x.t(), x);
  const at::Tensor b = at::mm(x.t(), y);
  EXPECT_LE(distance(ridge_towards(a, b, 1e5, prior), prior), 1e-3);
  EXPECT_LE(distance(ridge_towards(a, b, 0, prior), at::mm(at::linalg_inv(a), b).t()), 1e-9);
  // In between: the gradient of the penalised sum is zero.
  const at::Tensor w = ridge_towards(a, b, 0.3, prior);
  const double lambda = 0.3 * a.diagonal().mean().item<double>();
  EXPECT_LE((at::mm(w, a) - b.t() + lambda * (w - prior)).abs().max().item<double>(), 1e-9);
}

TEST(Ridge, SingularAndZeroMatricesGiveFiniteAnswers) {
  const at::Tensor ones = at::ones({3, 3}, at::kDouble);
  EXPECT_TRUE(at::isfinite(ridge_solve(ones, at::ones({3, 1}, at::kDouble), 0)).all().item<bool>());
  EXPECT_EQ(ridge_solve(at::zeros({3, 3}, at::kDouble), ones, 1e-2).abs().max().item<double>(), 0);
}

}  // namespace
}  // namespace pare
