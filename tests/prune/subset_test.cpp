// Greedy column-subset selection against trying everything.
#include "pare/prune/subset.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "pare/run.h"
#include "pare/zoo/zoo.h"
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

// The definition: E and all gains anew at every step, O(n⁴).
std::vector<int64_t> slow_order(std::vector<ReaderMoments> readers, std::vector<double>& errors) {
  const int64_t n = readers[0].covariance.size(0);
  std::vector<double> smallest;
  for (const auto& reader : readers) smallest.push_back(1e-9 * reader.covariance.diagonal().max().item<double>());
  std::vector<int64_t> order;
  for (int64_t step = 0; step < n; ++step) {
    double left = 0;
    at::Tensor gain = at::zeros({n}, at::kDouble);
    for (size_t r = 0; r < readers.size(); ++r) {
      const at::Tensor& E = readers[r].covariance;
      left += at::mm(readers[r].gram, E).trace().item<double>();
      const at::Tensor all = (E * at::mm(readers[r].gram, E)).sum(0) / E.diagonal();
      gain += at::where(E.diagonal() > smallest[r], all, at::zeros_like(all));
    }
    errors.push_back(left);
    for (const int64_t k : order) gain[k] = -1;
    const int64_t best = gain.argmax().item<int64_t>();
    order.push_back(best);
    for (size_t r = 0; r < readers.size(); ++r) {
      at::Tensor& E = readers[r].covariance;
      const double pivot = E[best][best].item<double>();
      if (pivot > smallest[r]) E = E - at::outer(E.select(1, best), E.select(0, best)) / pivot;
    }
  }
  return order;
}

TEST(Subset, OrderAndErrorsAreThoseOfTheSlowForm) {
  at::manual_seed(7);
  for (const int64_t n : {1, 5, 90, 150}) {  // above and below what is updated at once
    const std::vector<ReaderMoments> readers = {random_moments(n), random_moments(n)};
    std::vector<double> errors;
    const std::vector<int64_t> order = slow_order(readers, errors);
    EXPECT_EQ(greedy_order(readers), order) << n;
    const at::Tensor importance = subset_importance(readers);
    for (size_t i = 0; i < order.size(); ++i)
      EXPECT_NEAR(importance[order[i]].item<double>(), errors[i] / errors[0], 1e-9) << n << " at " << i;
  }
}

// O(n³): each matrix is formed once and followed by updates. CPU time, so that other work on the machine does not
// count.
TEST(Subset, CostsLessThanTheSlowForm) {
  at::manual_seed(9);
  const std::vector<ReaderMoments> readers = {random_moments(320)};
  const auto seconds = [](const auto& work) {
    const std::clock_t begin = std::clock();
    work();
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  std::vector<double> errors;
  const double slow = seconds([&] { slow_order(readers, errors); });
  EXPECT_LT(seconds([&] { greedy_order(readers); }), slow / 4);
}

// What is left to reconstruct does not depend on the scale of the activations or of the weights.
TEST(Subset, ErrorsOfGroupsAreComparable) {
  at::manual_seed(8);
  const ReaderMoments reader = random_moments(12);
  const at::Tensor importance = subset_importance({reader});
  EXPECT_LE(
      (subset_importance({{reader.covariance * 1e6, reader.gram * 1e-3}}) - importance).abs().max().item<double>(),
      1e-9);
  // Copies of two channels: the other ten may go without an error.
  const at::Tensor twins = at::randn({12, 2}, at::kDouble);
  const at::Tensor copies = subset_importance({{at::mm(twins, twins.t()), reader.gram}});
  EXPECT_EQ((copies > 1e-9).sum().item<int64_t>(), 2);
  EXPECT_EQ((importance > 1e-9).sum().item<int64_t>(), 12);
}

TEST(Subset, AGroupThatNothingReadsHasNoImportance) {
  const at::Tensor zero = at::zeros({4, 4}, at::kDouble);
  EXPECT_EQ(subset_importance({{at::eye(4, at::kDouble), zero}}).abs().max().item<double>(), 0);
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
  const auto moments = reader_moments(graph, map, samples_of({at::randn({500, 3}, at::kDouble)}));
  ASSERT_TRUE(moments.contains(0));
  auto order = greedy_order(moments.at(0));
  const at::Tensor importance = subset_importance(moments.at(0));
  EXPECT_EQ(importance[order[0]].item<double>(), 1);  // nothing is explained before the first is kept
  // Two of the three explain the third entirely.
  EXPECT_LE(loss(moments.at(0)[0], {order[0], order[1]}), 1e-9);
}

// What a reader sees are its channels at every place, whatever the operator, and of all samples at once.
void expect_rows_of_channels(const Graph& graph, const at::Tensor& images, const std::string& group_name) {
  const ChannelMap map = analyze_channels(graph);
  const auto found = reader_moments(graph, map, samples_of({images}));
  size_t seen = 0;
  for (size_t g = 0; g < map.groups.size(); ++g) {
    if (!map.groups[g].prunable()) continue;
    const ChannelGroup& group = map.groups[g];
    size_t reader = 0;
    for (const size_t s : group.consumers) {
      const Slot& slot = map.slots[s];
      const Node& node = graph.nodes[slot.node];
      if (slot.input != 1 || (node.op != "Conv" && node.op != "Gemm")) continue;
      RunOptions options;
      options.taps = {node.inputs[0]};
      const at::Tensor x = forward(graph, {{images}}, options).tapped.at(node.inputs[0]).to(at::kDouble);
      const at::Tensor ids = map.values.at(node.inputs[0]).reshape({-1});
      const at::Tensor rows = x.movedim(1, -1).reshape({-1, x.size(1)});
      std::vector<at::Tensor> columns;  // of each channel, all its places
      for (const ChannelId id : group.channels)
        columns.push_back(rows.index_select(1, ids.eq(static_cast<int64_t>(id)).nonzero().flatten()).t().reshape({-1}));
      const at::Tensor all = at::stack(columns, 1) - at::stack(columns, 1).mean(0);
      const at::Tensor expected = at::mm(all.t(), all) / static_cast<double>(all.size(0));
      ASSERT_LT(reader, found.at(g).size()) << group_name;
      EXPECT_LT((found.at(g)[reader++].covariance - expected).abs().max().item<double>(),
                1e-5 * expected.diagonal().max().item<double>())
          << group_name << ": " << describe(node);
    }
    seen += reader;
  }
  EXPECT_GT(seen, 0U) << group_name;
}

TEST(Subset, SeesChannelsAtEveryPlace) {
  at::manual_seed(11);
  expect_rows_of_channels(build("convnet", {.width = 0.25}, 1), at::randn({19, 1, 28, 28}), "flattened");
  TestGraph g;
  const auto x = g.input("x", {-1, 3, 9, 9});
  const auto wide = g.relu(g.conv(x, 3, 8, 3));
  const auto grouped = g.conv(wide, 8, 8, 3, 2);
  expect_rows_of_channels(g.finish(g.conv(g.relu(grouped), 8, 4, 1)), at::randn({19, 3, 9, 9}, at::kDouble), "grouped");
}

}  // namespace
}  // namespace pare
