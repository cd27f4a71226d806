// A compensation that is worse than none on samples is given up, group by group and as a whole; others stay.
#include "pare/compensate/judge.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "pare/compensate/compensate.h"
#include "pare/layerwise/sensitivity.h"
#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

at::Tensor matrix(const std::vector<double>& values, int64_t columns) {
  return at::tensor(values, at::kDouble).reshape({-1, columns});
}

// Two hidden layers. In the first, channel 1 looks a little like channel 0 but is silent on the samples, so that
// nothing is lost without it and much is wrong with it merged. In the second, channel 1 is channel 0 but for a little.
Graph two_layers() {
  TestGraph g(1);
  const auto layer = [&](const std::string& x, const at::Tensor& weight) {
    return g.node("Gemm", {x, g.tensor(weight)}, {{"transB", int64_t{1}}});
  };
  const auto first = g.relu(layer(g.input("x", {-1, 2}), matrix({1, 0, 1, 3}, 2)));
  const auto second = g.relu(layer(first, matrix({1, 0, 1.1, 0.3}, 2)));
  return g.finish(layer(second, matrix({1, 1, -1, -1, 0.5, 1}, 2)));
}

at::Tensor silent_inputs() {
  at::manual_seed(3);
  at::Tensor x = at::rand({12, 2}, at::kDouble) + 0.1;
  x.select(1, 1).neg_().sub_(5);
  return x;
}

std::vector<GroupCut> second_channels(const ChannelMap& map) {
  std::set<ChannelId> removed;
  for (const auto& group : map.groups)
    if (group.reason.empty()) removed.insert(group.channels[1]);
  return cuts_of(map, removed);
}

Compensated compensated(const Graph& graph, const std::vector<GroupCut>& cuts, const ChannelMap& map,
                        const std::string& method, const Samples& judges) {
  return compensate(graph, map, cuts, find_compensation(method), {}, {}, unobserved(), judges);
}

double largest_difference(const Graph& a, const Graph& b, const at::Tensor& x) {
  const std::vector<at::Tensor> inputs = {x};
  return (forward(a, inputs).outputs[0] - forward(b, inputs).outputs[0]).abs().max().item<double>();
}

TEST(Judge, GivesUpTheMergesThatAreWorseAndKeepsTheOthers) {
  const Graph graph = two_layers();
  const ChannelMap map = analyze_channels(graph);
  const auto cuts = second_channels(map);
  ASSERT_EQ(cuts.size(), 2U);
  const at::Tensor x = silent_inputs();
  const Compensated blind = compensated(graph, cuts, map, "most-sim", {});
  EXPECT_GT(largest_difference(blind.graph, graph, x), 0.04);
  EXPECT_EQ(blind.judges, 0);
  const Compensated judged = compensated(graph, cuts, map, "most-sim", samples_of({x}));
  EXPECT_EQ(judged.judges, 12);
  EXPECT_THAT(judged.notes, testing::ElementsAre(testing::HasSubstr("1 of 2 groups are only cut")));
  EXPECT_THAT(judged.groups.at(cuts[0].group), testing::StartsWith("none: "));
  EXPECT_EQ(judged.groups.at(cuts[1].group), "1 of 1 merged");
  const Graph none = compensated(graph, cuts, map, "none", {}).graph;
  EXPECT_LT(largest_difference(judged.graph, graph, x), 0.1 * largest_difference(none, graph, x));
}

TEST(Judge, GivesUpAWholeThatIsWorse) {
  const Graph graph = two_layers();
  const ChannelMap map = analyze_channels(graph);
  const auto cuts = std::vector<GroupCut>{second_channels(map).front()};
  const at::Tensor x = silent_inputs();
  EXPECT_GT(largest_difference(compensated(graph, cuts, map, "ot-average", {}).graph, graph, x), 0.1);
  const Compensated judged = compensated(graph, cuts, map, "ot-average", samples_of({x}));
  EXPECT_EQ(largest_difference(judged.graph, graph, x), 0);
  EXPECT_THAT(judged.notes, testing::ElementsAre(testing::HasSubstr("the channels are only cut: 'ot-average'")));
}

TEST(Judge, TakesChanceAndWhatIsNotANumberForNoGain) {
  EXPECT_FALSE((Judgement{.none = 1, .compensated = std::nan("")}).better());
  EXPECT_FALSE((Judgement{.none = 1, .compensated = 1}).better());
  EXPECT_FALSE((Judgement{.none = 1, .compensated = 0.9, .error = 0.2}).better());
  EXPECT_TRUE((Judgement{.none = 1, .compensated = 0.9, .error = 0.05}).better());
}

// The mean of the differences of both divergences, and its standard error, written slowly.
TEST(Judge, MeasuresTheErrorOfTheDifference) {
  const Graph graph = two_layers();
  const ChannelMap map = analyze_channels(graph);
  const auto cut = second_channels(map)[1];
  const at::Tensor x = silent_inputs();
  const Graph merged = compensated(graph, {cut}, map, "most-sim", {}).graph;
  const Graph none = compensated(graph, {cut}, map, "none", {}).graph;
  const Judge judge(graph, map, samples_of({x}), unobserved());
  const Judgement found = judge.judge({{{cut.order[0]}, merged}}).at(0);
  std::vector<double> gains;
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < x.size(0); ++i) {
    const std::vector<at::Tensor> one = {x.narrow(0, i, 1)};
    const auto apart = [&](const Graph& other) {
      return divergence(forward(graph, one).outputs[0], forward(other, one).outputs[0]);
    };
    gains.push_back(apart(none) - apart(merged));
    sum += gains.back();
  }
  const double n = static_cast<double>(gains.size());
  for (const double gain : gains) squares += (gain - sum / n) * (gain - sum / n);
  EXPECT_NEAR(found.none - found.compensated, sum / n, 1e-9);
  EXPECT_NEAR(found.error, std::sqrt(squares / (n - 1) / n), 1e-9);
}

}  // namespace
}  // namespace pare
