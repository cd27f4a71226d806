#include "pare/layerwise/row_moments.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace pare {
namespace {

at::Tensor covariance(const at::Tensor& x, const at::Tensor& y) {
  const at::Tensor a = x.to(at::kDouble), b = y.to(at::kDouble);
  return at::mm((a - a.mean(0)).t(), b - b.mean(0)) / static_cast<double>(x.size(0));
}

TEST(RowMoments, AreTheSameInAnyPieces) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({300, 6}), y = at::randn({300, 3});
  for (const int64_t piece : {1, 7, 64, 300}) {
    RowMoments sum;
    for (int64_t begin = 0; begin < 300; begin += piece)
      sum = joined(sum, row_moments(x.slice(0, begin, begin + piece), y.slice(0, begin, begin + piece)));
    EXPECT_EQ(sum.count, 300);
    EXPECT_LT((sum.covariance_xx() - covariance(x, x)).abs().max().item<double>(), 1e-6);
    EXPECT_LT((sum.covariance_xy() - covariance(x, y)).abs().max().item<double>(), 1e-6);
    EXPECT_LT((sum.mean_x - x.to(at::kDouble).mean(0)).abs().max().item<double>(), 1e-7);
  }
}

TEST(RowMoments, SurviveAMeanFarAboveTheDeviation) {
  at::manual_seed(2);
  const at::Tensor exact = at::randn({4000, 4}, at::kDouble) * 0.01 + 1800;
  const at::Tensor x = exact.to(at::kFloat);
  RowMoments sum;
  for (int64_t begin = 0; begin < 4000; begin += 500) sum = joined(sum, row_moments(x.slice(0, begin, begin + 500)));
  const at::Tensor expected = covariance(x, x);
  EXPECT_LT(((sum.covariance_xx() - expected).abs().max() / expected.diagonal().max()).item<double>(), 1e-2);
}

// Rows as they are, or moments of theirs: what comes of them is the same, and nothing else changes.
TEST(RowMoments, ASumTakesRowsAndMoments) {
  at::manual_seed(4);
  const at::Tensor x = at::cat({at::randn({40, 12}) - 500, at::randn({1, 12}), at::randn({70, 12}) + 500});
  const at::Tensor y = x.narrow(1, 0, 3) + at::randn({111, 3});
  RowMoments sum;
  int64_t begin = 0;
  for (const int64_t rows : {40, 1, 0, 5, 65}) {  // fewer than columns, and more
    const at::Tensor before = sum.count > 0 ? sum.xx.clone() : at::Tensor();
    const RowMoments more = row_moments(x.narrow(0, begin, rows), y.narrow(0, begin, rows));
    const RowMoments both = joined(sum, more);
    EXPECT_TRUE(!before.defined() || at::equal(sum.xx, before));
    add(sum, row_part(x.narrow(0, begin, rows), y.narrow(0, begin, rows)));
    EXPECT_EQ(row_part(x.narrow(0, begin, rows)).x.defined(), rows < 12);
    EXPECT_LT((both.xx - sum.xx).abs().max().item<double>(), 1e-9 * sum.xx.abs().max().item<double>() + 1e-9);
    begin += rows;
  }
  EXPECT_EQ(sum.count, 111);
  EXPECT_LT((sum.covariance_xx() - covariance(x, x)).abs().max().item<double>(), 1e-4);
  EXPECT_LT((sum.covariance_xy() - covariance(x, y)).abs().max().item<double>(), 1e-4);
  EXPECT_LT((sum.mean_y - y.to(at::kDouble).mean(0)).abs().max().item<double>(), 1e-9);
}

TEST(RowMoments, HalfPrecisionIsWidened) {
  at::manual_seed(3);
  const at::Tensor x = (at::randn({2000, 3}) + 5).to(at::kBFloat16);
  const at::Tensor expected = covariance(x, x);
  EXPECT_LT((row_moments(x).covariance_xx() - expected).abs().max().item<double>(), 1e-4);
}

}  // namespace
}  // namespace pare
