// Moments and ridge regression against the formulas on the data themselves.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/calibrate/moments.h"
#include "pare/calibrate/ridge.h"

namespace pare {
namespace {

double distance(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

at::Tensor covariance_of(const at::Tensor& x, const at::Tensor& y) {
  const at::Tensor a = x.to(at::kDouble) - x.to(at::kDouble).mean(0);
  const at::Tensor b = y.to(at::kDouble) - y.to(at::kDouble).mean(0);
  return at::mm(a.t(), b) / static_cast<double>(x.size(0));
}

// Sums of squares of float32 numbers hold none of a variance that is three million times smaller.
TEST(ChannelMoments, KeepASmallDeviationOfALargeMean) {
  at::manual_seed(4);
  const at::Tensor x = at::randn({6000, 4}) + at::tensor({1800.0F, -1800.0F, 3.0F, 0.0F});
  ChannelMoments channels;
  for (int64_t begin = 0; begin < 6000; begin += 1500) channels.add(x.narrow(0, begin, 1500));
  EXPECT_LE(distance(channels.mean(), x.to(at::kDouble).mean(0)), 1e-9);
  EXPECT_LE(distance(channels.variance(), covariance_of(x, x).diagonal()), 1e-9);
}

// Batches whose means lie far apart.
TEST(ChannelMoments, OfBatchesThatDiffer) {
  at::manual_seed(5);
  const at::Tensor x = at::cat({at::randn({40, 3}) - 500, at::randn({1, 3}), at::randn({70, 3}) + 500});
  ChannelMoments channels;
  channels.add(x.narrow(0, 0, 40));
  channels.add(x.narrow(0, 40, 1));
  channels.add(x.narrow(0, 41, 0));
  channels.add(x.narrow(0, 41, 70));
  EXPECT_LE(distance(channels.variance(), covariance_of(x, x).diagonal()), 1e-6);
}

TEST(ChannelMoments, OfHalfPrecisionAreThoseOfTheSameNumbers) {
  at::manual_seed(6);
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    const at::Tensor x = (at::randn({5000, 3}) + 10).to(dtype);
    ChannelMoments channels;
    channels.add(x);
    EXPECT_LE(distance(channels.variance(), covariance_of(x, x).diagonal()), 1e-9);
  }
}

TEST(ChannelMoments, RowsArePlaces) {
  const at::Tensor x = at::arange(24, at::kFloat).reshape({2, 3, 2, 2});
  const at::Tensor rows = rows_of(x, 1);
  ASSERT_EQ(rows.sizes(), (std::vector<int64_t>{8, 3}));
  EXPECT_EQ(rows[5][2].item<float>(), x[1][2][0][1].item<float>());
}

TEST(Ridge, SolvesTheNormalEquations) {
  at::manual_seed(2);
  const at::Tensor x = at::randn({200, 6}, at::kDouble);
  const at::Tensor y = at::randn({200, 3}, at::kDouble);
  const LinearFit fit = fit_linear(covariance_of(x, x), covariance_of(x, y), x.mean(0), y.mean(0), 0);
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
