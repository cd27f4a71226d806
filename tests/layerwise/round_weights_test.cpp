// Rounding with compensation: against plain rounding, against all roundings of a small row, and the grid's own bounds.
#include "pare/layerwise/round_weights.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "pare/layerwise/zero_weights.h"

namespace pare {
namespace {

at::Tensor moments(int64_t d, uint64_t seed) {
  at::manual_seed(seed);
  const at::Tensor x = at::mm(at::randn({3 * d, d}, at::kDouble), at::randn({d, d}, at::kDouble));
  return at::mm(x.t(), x) / (3.0 * static_cast<double>(d)) + 0.01 * at::eye(d, at::kDouble);
}

double error(const WeightGrid& grid, const at::Tensor& codes, const at::Tensor& best, const at::Tensor& H) {
  return row_errors(grid.values(codes), best, H).sum().item<double>();
}

TEST(RoundWeights, NoRowIsWorseThanRoundedToTheNearest) {
  for (const int64_t bits : {2, 4, 8})
    for (const int64_t block : {0, 8})
      for (uint64_t seed = 0; seed < 8; ++seed) {
        const at::Tensor H = moments(20, seed), best = at::randn({6, 20}, at::kDouble);
        const WeightGrid grid = weight_grid(best, bits, block);
        const at::Tensor codes = round_weights(best, H, grid);
        EXPECT_LE(codes.abs().max().item<double>(), static_cast<double>(grid.highest));
        EXPECT_TRUE(codes.equal(at::round(codes)));
        const at::Tensor own = row_errors(grid.values(codes), best, H);
        EXPECT_TRUE(own.le(row_errors(grid.values(grid.codes(best)), best, H)).all().item<bool>());
      }
}

TEST(RoundWeights, CompensationWinsWhereInputsGoTogether) {
  double compensated = 0, plain = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const at::Tensor H = moments(64, 20 + seed), best = at::randn({16, 64}, at::kDouble);
    const WeightGrid grid = weight_grid(best, 4, 0);
    compensated += error(grid, round_weights(best, H, grid), best, H);
    plain += error(grid, grid.codes(best), best, H);
  }
  EXPECT_LT(compensated, 0.6 * plain);
}

// All 3^5 roundings of a row to {−1, 0, 1} times its scale.
TEST(RoundWeights, ComesNearTheBestOfAllRoundings) {
  double ratio = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const at::Tensor H = moments(5, 60 + seed), best = at::randn({1, 5}, at::kDouble);
    const WeightGrid grid = weight_grid(best, 2, 0);
    double least = std::numeric_limits<double>::infinity();
    for (int n = 0; n < 243; ++n) {
      at::Tensor codes = at::zeros({1, 5}, at::kDouble);
      for (int64_t j = 0, rest = n; j < 5; ++j, rest /= 3) codes[0][j] = static_cast<double>(rest % 3 - 1);
      least = std::min(least, error(grid, codes, best, H));
    }
    const double own = error(grid, round_weights(best, H, grid), best, H);
    EXPECT_GE(own, least - 1e-12);
    ratio += own / least / 20;
  }
  EXPECT_LT(ratio, 2);
}

TEST(RoundWeights, AGridThatIsSearchedIsNoWorse) {
  at::manual_seed(3);
  const at::Tensor W = at::randn({8, 40}, at::kDouble), weighs = at::rand({40}, at::kDouble);
  const auto lost = [&](const WeightGrid& grid) { return ((grid.values(grid.codes(W)) - W).square() * weighs).sum(1); };
  const at::Tensor plain = lost(weight_grid(W, 4, 0)), searched = lost(weight_grid(W, 4, 0, weighs));
  EXPECT_TRUE(searched.le(plain).all().item<bool>());
  EXPECT_LT(searched.sum().item<double>(), plain.sum().item<double>());
}

TEST(RoundWeights, ZerosHaveAScaleAndStayZero) {
  at::Tensor W = at::randn({3, 10}, at::kDouble);
  W[1].zero_();
  W.narrow(1, 8, 2).zero_();  // a block of its own
  const WeightGrid grid = weight_grid(W, 8, 8);
  EXPECT_EQ(grid.scale.sizes(), (std::vector<int64_t>{3, 2}));
  EXPECT_TRUE(grid.scale.gt(0).all().item<bool>());
  EXPECT_TRUE(grid.values(grid.codes(W))[1].eq(0).all().item<bool>());
  const at::Tensor kept = round_weights(W, at::eye(10, at::kDouble), grid);
  EXPECT_TRUE(kept[1].eq(0).all().item<bool>());
}

}  // namespace
}  // namespace pare
