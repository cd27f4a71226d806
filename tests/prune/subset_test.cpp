// Greedy column-subset selection against trying everything.
#include "pare/prune/subset.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/builder.h"

namespace pare {
namespace {

// tr(Q E) when the channels K are kept.
double loss(const ReaderMoments& m, const std::vector<int64_t>& K) {
  const at::Tensor k = at::tensor(K, at::kLong);
  const at::Tensor C_K = m.covariance.index_select(1, k);
  const at::Tensor E = m.covariance - at::mm(C_K, at::mm(at::linalg_inv(C_K.index_select(0, k)), C_K.t()));
  return at::mm(m.gram, E).trace().item<double>();
}

ReaderMoments random_moments(int64_t n) {
  const at::Tensor a = at::randn({n, n}, at::kDouble);
  const at::Tensor w = at::randn({n, n}, at::kDouble);
  return {at::mm(a, a.t()), at::mm(w, w.t())};
}

TEST(Subset, EachStepTakesTheBest) {
  at::manual_seed(3);
  const std::vector<ReaderMoments> readers = {random_moments(7), random_moments(7)};
  const std::vector<int64_t> order = greedy_order(readers);
  ASSERT_EQ(order.size(), 7U);
  std::vector<int64_t> kept;
  for (size_t step = 0; step < 5; ++step) {
    double best = 1e300;
    int64_t choice = -1;
    for (int64_t k = 0; k < 7; ++k) {
      if (std::find(kept.begin(), kept.end(), k) != kept.end()) continue;
      auto with = kept;
      with.push_back(k);
      const double sum = loss(readers[0], with) + loss(readers[1], with);
      if (sum < best) best = sum, choice = k;
    }
    EXPECT_EQ(order[step], choice);
    kept.push_back(choice);
  }
}

TEST(Subset, LeavesOutWhatOthersTell) {
  // Channel 2 is the sum of 0 and 1: it is the last to be kept.
  TestGraph g(2);
  const auto x = g.input("x", {-1, 3});
  Graph graph = g.finish(g.linear(g.linear(x, 3, 3), 3, 4));
  at::Tensor w = at::randn({3, 3}, at::kDouble);
  w[2].copy_(w[0] + w[1]);
  graph.tensors["t0"] = w;
  const ChannelMap map = analyze_channels(graph);
  const auto moments = reader_moments(graph, map, {at::randn({500, 3}, at::kDouble)});
  ASSERT_TRUE(moments.contains(0));
  auto order = greedy_order(moments.at(0));
  const at::Tensor importance = subset_importance(moments.at(0));
  EXPECT_EQ(importance[order[0]].item<double>(), 3);
  // Two of the three explain the third entirely.
  EXPECT_LE(loss(moments.at(0)[0], {order[0], order[1]}), 1e-9);
}

}  // namespace
}  // namespace pare
