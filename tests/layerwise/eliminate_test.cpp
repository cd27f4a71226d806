// Elimination against the same written slowly: every candidate removed for real and the rest solved by least squares.
#include "pare/layerwise/eliminate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace pare {
namespace {

at::Tensor random_covariance(int64_t d, int64_t samples) {
  const at::Tensor x = at::randn({samples, d}, at::kDouble);
  return at::mm(x.t(), x) / static_cast<double>(samples);
}

at::Tensor regular(const at::Tensor& G, double ridge) {
  return G + ridge * G.diagonal().mean() * at::eye(G.size(0), at::kDouble);
}

// What the reader loses with only the rows K: min over V of tr (W − V S) G (W − V S)ᵀ, S selecting K.
double residual(const EliminationReader& reader, const std::vector<int64_t>& kept_rows, double ridge) {
  const at::Tensor G = regular(reader.covariance, ridge);
  const at::Tensor& W = reader.weight;
  const double whole = at::mm(at::mm(W, G), W.t()).trace().item<double>();
  if (kept_rows.empty()) return whole;
  const at::Tensor K = at::tensor(kept_rows, at::kLong);
  const at::Tensor R = at::mm(G, W.t()).index_select(0, K);
  const at::Tensor V = at::linalg_solve(G.index_select(0, K).index_select(1, K), R);
  return whole - (R * V).sum().item<double>();
}

double total(const std::vector<EliminationReader>& readers, const std::vector<int64_t>& kept, int64_t channels,
             double ridge) {
  double sum = 0;
  for (const auto& reader : readers) {
    std::vector<int64_t> rows;
    for (const int64_t channel : kept)
      for (int64_t r = 0; r < reader.rows; ++r) rows.push_back(channel * reader.rows + r);
    for (int64_t row = channels * reader.rows; row < reader.covariance.size(0); ++row) rows.push_back(row);
    sum += residual(reader, rows, ridge);
  }
  return sum;
}

void expect_greedy(const std::vector<EliminationReader>& readers, int64_t channels, double ridge) {
  const Elimination result = eliminate(readers, channels, ridge);
  ASSERT_EQ(static_cast<int64_t>(result.order.size()), channels);
  const double scale = total(readers, {}, channels, ridge);
  std::vector<int64_t> left(static_cast<size_t>(channels));
  for (int64_t i = 0; i < channels; ++i) left[static_cast<size_t>(i)] = i;
  for (int64_t step = 0; step < channels; ++step) {
    double best = std::numeric_limits<double>::infinity();
    for (const int64_t candidate : left) {
      std::vector<int64_t> others = left;
      std::erase(others, candidate);
      best = std::min(best, total(readers, others, channels, ridge));
    }
    std::erase(left, result.order[static_cast<size_t>(step)]);
    const double own = total(readers, left, channels, ridge);
    EXPECT_NEAR(own, best, 1e-9 * scale) << "step " << step << " does not take the channel that costs least";
    EXPECT_NEAR(result.error[static_cast<size_t>(step)], own, 1e-9 * scale) << "step " << step;
  }
}

TEST(Eliminate, TakesTheGreedyPathAndKnowsItsError) {
  at::manual_seed(1);
  for (int64_t n = 1; n <= 8; ++n) expect_greedy({{random_covariance(n, 40), at::randn({3, n}, at::kDouble)}}, n, 1e-6);
}

TEST(Eliminate, SeveralReadersAddUp) {
  at::manual_seed(2);
  expect_greedy({{random_covariance(7, 40), at::randn({3, 7}, at::kDouble)},
                 {random_covariance(7, 40), 5 * at::randn({2, 7}, at::kDouble)}},
                7, 1e-3);
}

TEST(Eliminate, ChannelsOfSeveralRowsGoTogether) {
  at::manual_seed(3);
  expect_greedy({{random_covariance(18, 60), at::randn({3, 18}, at::kDouble), 3},
                 {random_covariance(6, 60), at::randn({4, 6}, at::kDouble)}},
                6, 1e-4);
}

TEST(Eliminate, RowsOfOthersStayAndHelp) {
  at::manual_seed(4);
  expect_greedy({{random_covariance(13, 60), at::randn({3, 13}, at::kDouble), 2}}, 5, 1e-4);
}

TEST(Eliminate, ManyChannelsAreExactToTheEnd) {
  at::manual_seed(5);
  const int64_t n = 200;
  const EliminationReader reader{random_covariance(n, 120), at::randn({10, n}, at::kDouble)};  // singular but for ridge
  const Elimination result = eliminate({reader}, n, 1e-6);
  const double whole = residual(reader, {}, 1e-6);
  for (const int64_t removed : {1, 50, 150, 199, 200}) {
    std::vector<int64_t> kept(result.order.begin() + removed, result.order.end());
    std::ranges::sort(kept);
    EXPECT_NEAR(result.error[static_cast<size_t>(removed) - 1], residual(reader, kept, 1e-6), 1e-8 * whole) << removed;
  }
}

TEST(Eliminate, ConstantAndRepeatedChannelsGoFirstForNothing) {
  at::manual_seed(6);
  at::Tensor x = at::randn({50, 5}, at::kDouble);
  x.select(1, 1).zero_();                    // constant: no covariance with anything
  x.select(1, 3).copy_(2 * x.select(1, 0));  // a copy
  const EliminationReader reader{at::mm(x.t(), x) / 50, at::randn({4, 5}, at::kDouble)};
  const Elimination result = eliminate({reader}, 5, 1e-9);
  EXPECT_LT(result.error[1], 1e-6 * result.error[4]);
  EXPECT_TRUE(result.order[0] == 1 || result.order[1] == 1);
}

// The formulas step by step: P and W of one channel less at a time.
Elimination step_by_step(const std::vector<EliminationReader>& readers, int64_t channels, double ridge) {
  std::vector<at::Tensor> P, W;
  for (const auto& reader : readers) {
    P.push_back(at::linalg_inv(regular(reader.covariance, ridge)));
    W.push_back(reader.weight.t().clone());
  }
  Elimination result;
  std::vector<bool> gone(static_cast<size_t>(channels), false);
  double error = 0;
  for (int64_t step = 0; step < channels; ++step) {
    int64_t best = -1;
    double least = std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < channels; ++j) {
      if (gone[static_cast<size_t>(j)]) continue;
      double loss = 0;
      for (size_t r = 0; r < readers.size(); ++r) {
        const int64_t rows = readers[r].rows;
        const at::Tensor W_j = W[r].narrow(0, j * rows, rows);
        const at::Tensor P_jj = P[r].narrow(0, j * rows, rows).narrow(1, j * rows, rows);
        loss += (W_j * at::linalg_solve(P_jj, W_j)).sum().item<double>();
      }
      if (loss < least) least = loss, best = j;
    }
    gone[static_cast<size_t>(best)] = true;
    result.order.push_back(best);
    result.error.push_back(error += least);
    for (size_t r = 0; r < readers.size(); ++r) {
      const int64_t rows = readers[r].rows, begin = best * rows;
      const at::Tensor columns = P[r].narrow(1, begin, rows).clone();
      const at::Tensor P_jj = columns.narrow(0, begin, rows).clone();
      W[r] = W[r] - at::mm(columns, at::linalg_solve(P_jj, W[r].narrow(0, begin, rows)));
      P[r] = P[r] - at::mm(columns, at::linalg_solve(P_jj, columns.t()));
    }
  }
  return result;
}

// Above and below what is updated at once, channels of one row and of several, rows of nobody.
TEST(Eliminate, InBlocksIsStepByStep) {
  at::manual_seed(7);
  for (const auto& [n, rows] : std::vector<std::pair<int64_t, int64_t>>{{5, 1}, {63, 1}, {130, 1}, {70, 3}, {20, 9}}) {
    const int64_t d = n * rows + 4;
    const std::vector<EliminationReader> readers = {
        {random_covariance(d, 3 * d), at::randn({20, d}, at::kDouble), rows},
        {random_covariance(n, 3 * n), 2 * at::randn({n + 3, n}, at::kDouble), 1}};
    const Elimination slow = step_by_step(readers, n, 1e-2), fast = eliminate(readers, n, 1e-2);
    EXPECT_EQ(fast.order, slow.order) << n << " channels of " << rows;
    for (size_t i = 0; i < slow.error.size(); ++i)
      EXPECT_NEAR(fast.error[i], slow.error[i], 1e-9 * slow.error.back()) << n << " channels of " << rows;
  }
}

}  // namespace
}  // namespace pare
