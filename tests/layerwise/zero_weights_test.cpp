// Zeros with compensation against the formulas written slowly: the least-squares optimum for a mask, every mask of a
// small row, and the scores that move nothing.
#include "pare/layerwise/zero_weights.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>

namespace pare {
namespace {

struct MaskProblem {
  at::Tensor best, H;
};

MaskProblem problem(int64_t q, int64_t d, uint64_t seed) {
  at::manual_seed(seed);
  const at::Tensor x = at::mm(at::randn({4 * d, d}, at::kDouble), at::randn({d, d}, at::kDouble));
  return {at::randn({q, d}, at::kDouble),
          at::mm(x.t(), x) / (4.0 * static_cast<double>(d)) + 0.01 * at::eye(d, at::kDouble)};
}

// The optimum for a mask by least squares on rows: ‖L w_S − L w*‖, H = LᵀL.
double least_error(const at::Tensor& best, const at::Tensor& H, const at::Tensor& mask) {
  const at::Tensor L = at::linalg_cholesky(H).t(), target = at::mv(L, best);
  const at::Tensor S = mask.nonzero().squeeze(1);
  if (S.numel() == 0) return target.square().sum().item<double>();
  const at::Tensor A = L.index_select(1, S);
  const at::Tensor w = at::mv(at::linalg_pinv(A), target);
  return (at::mv(A, w) - target).square().sum().item<double>();
}

TEST(ZeroWeights, IsTheLeastSquaresOptimumForItsMask) {
  for (int64_t d = 2; d <= 10; ++d)
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const MaskProblem p = problem(3, d, seed * 100 + static_cast<uint64_t>(d));
      const ZeroedWeights zeroed = zero_weights(p.best, p.H, {.sparsity = 0.5});
      EXPECT_EQ(zeroed.mask.sum().item<int64_t>(), (3 * d + 1) / 2);
      EXPECT_TRUE(zeroed.weight.masked_select(zeroed.mask.logical_not()).eq(0).all().item<bool>());
      double least = 0;
      for (int64_t row = 0; row < 3; ++row) least += least_error(p.best[row], p.H, zeroed.mask[row]);
      EXPECT_NEAR(zeroed.error, least, 1e-9 * std::max(1.0, least)) << d << " " << seed;
    }
}

// Of all masks of one row: greed comes near the best of them, and is the best one on most.
TEST(ZeroWeights, ComesNearTheBestOfAllMasks) {
  int exact = 0, all = 0;
  double ratio = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const int64_t d = 8;
    const MaskProblem p = problem(1, d, 1000 + seed);
    const ZeroedWeights zeroed = zero_weights(p.best, p.H, {.sparsity = 0.5});
    double least = std::numeric_limits<double>::infinity();
    for (unsigned bits = 0; bits < 1U << d; ++bits) {
      if (std::popcount(bits) != 4) continue;
      at::Tensor mask = at::zeros({d}, at::kBool);
      for (int64_t j = 0; j < d; ++j) mask[j] = (bits >> j & 1) != 0;
      least = std::min(least, least_error(p.best[0], p.H, mask));
    }
    EXPECT_GE(zeroed.error, least - 1e-9);
    ratio += zeroed.error / least;
    exact += zeroed.error < least * (1 + 1e-9) ? 1 : 0;
    ++all;
  }
  EXPECT_LT(ratio / all, 1.6);
  EXPECT_GE(exact, all / 3);
}

double plain_error(const MaskProblem& p, const at::Tensor& mask) {
  return row_errors(p.best * mask, p.best, p.H).sum().item<double>();
}

const ZeroPattern kPatterns[] = {{.sparsity = 0.3},
                                 {.sparsity = 0.7},
                                 {.sparsity = 0.5, .by_row = true},
                                 {.keep = 2, .among = 4},
                                 {.keep = 1, .among = 4, .kernel = 2},
                                 {.sparsity = 0.5, .tile_inputs = 4},
                                 {.sparsity = 0.5, .tile_outputs = 4, .kernel = 3},
                                 {.sparsity = 0.4, .tile_outputs = 2, .tile_inputs = 2}};

TEST(ZeroWeights, IsNeverWorseThanMagnitudeOrWandaInAnyPattern) {
  for (const double work : {1e12, 0.0})  // exactly, and swept
    for (const auto& pattern : kPatterns)
      for (uint64_t seed = 0; seed < 6; ++seed) {
        const MaskProblem p = problem(8, 24, seed);
        const ZeroedWeights zeroed = zero_weights(p.best, p.H, pattern, {.work = work, .sweep = 8});
        const at::Tensor magnitude = mask_by_score(p.best, pattern);
        const at::Tensor wanda = mask_by_score(wanda_scores(p.best, p.H.diagonal()), pattern);
        EXPECT_EQ(zeroed.mask.sum().item<int64_t>(), magnitude.sum().item<int64_t>());
        EXPECT_LE(zeroed.error, plain_error(p, magnitude));
        EXPECT_LE(zeroed.error, plain_error(p, wanda));
        EXPECT_NEAR(zeroed.error, row_errors(zeroed.weight, p.best, p.H).sum().item<double>(), 1e-9);
      }
}

TEST(ZeroWeights, KeepsNOfEveryMAlongTheInputs) {
  for (const double work : {1e12, 0.0}) {
    const MaskProblem p = problem(6, 30, 3);  // 10 channels, 3 places of the kernel: 2 channels fill no group of 4
    const at::Tensor mask =
        zero_weights(p.best, p.H, {.keep = 2, .among = 4, .kernel = 3}, {.work = work}).mask.reshape({6, 10, 3});
    for (int64_t group = 0; group < 2; ++group)
      EXPECT_TRUE(mask.narrow(1, 4 * group, 4).sum(1).eq(2).all().item<bool>());
    EXPECT_TRUE(mask.narrow(1, 8, 2).all().item<bool>());
  }
}

TEST(ZeroWeights, ZerosComeInTiles) {
  for (const double work : {1e12, 0.0}) {
    const MaskProblem p = problem(10, 24, 4);
    const at::Tensor mask =
        zero_weights(p.best, p.H, {.sparsity = 0.5, .tile_outputs = 4, .tile_inputs = 2, .kernel = 3},
                     {.work = work, .sweep = 6})
            .mask.reshape({10, 8, 3});
    EXPECT_TRUE(mask.narrow(0, 8, 2).all().item<bool>());  // two outputs fill no tile
    const at::Tensor tiles = mask.narrow(0, 0, 8).reshape({2, 4, 4, 2, 3}).permute({0, 2, 4, 1, 3}).reshape({24, 8});
    const at::Tensor filled = tiles.sum(1);
    EXPECT_TRUE(filled.eq(0).logical_or(filled.eq(8)).all().item<bool>());
    EXPECT_EQ(filled.eq(0).sum().item<int64_t>(), 120 / 8);
  }
}

TEST(ZeroWeights, TheSweepMakesUpForItsZeros) {
  double solved = 0, plain = 0, exact = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const MaskProblem p = problem(16, 40, 50 + seed);
    const ZeroedWeights zeroed = zero_weights(p.best, p.H, {.sparsity = 0.5}, {.work = 0, .sweep = 16});
    solved += zeroed.error;
    plain += plain_error(p, mask_by_score(wanda_scores(p.best, p.H.diagonal()), {.sparsity = 0.5}));
    exact += zero_weights(p.best, p.H, {.sparsity = 0.5}).error;
  }
  EXPECT_LT(solved, 0.9 * plain);
  EXPECT_LT(exact, solved);
}

TEST(ZeroWeights, TheSameBitsWhateverTheThreads) {
  const MaskProblem p = problem(20, 30, 8);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const ZeroedWeights one = zero_weights(p.best, p.H, {.sparsity = 0.6});
  at::set_num_threads(4);
  const ZeroedWeights four = zero_weights(p.best, p.H, {.sparsity = 0.6});
  at::set_num_threads(threads);
  EXPECT_TRUE(one.weight.equal(four.weight));
  EXPECT_TRUE(one.mask.equal(four.mask));
}

TEST(ZeroWeights, WandaIsTheWeightTimesTheLengthOfItsInput) {
  const at::Tensor W = at::tensor({1.0, -2.0, 3.0, 4.0}, at::kDouble).reshape({2, 2});
  const at::Tensor scores = wanda_scores(W, at::tensor({4.0, 9.0}, at::kDouble));
  EXPECT_TRUE(scores.equal(at::tensor({2.0, 6.0, 6.0, 12.0}, at::kDouble).reshape({2, 2})));
}

}  // namespace
}  // namespace pare
