// Merging reader by reader: whatever lies between the layers that make channels and a reader belongs to its Z.
#include "pare/compensate/readers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/compensate/compensate.h"
#include "pare/passes/remove_channels.h"
#include "pare/run.h"
#include "support/builder.h"
#include "support/compensated.h"

namespace pare {
namespace {

using Ints = std::vector<int64_t>;

// Channel 1 of the first group goes; the outputs before and after, relative to their size.
struct Removed {
  Compensated done;
  double error = 0;
};

Removed without_channel(const Graph& graph, const std::string& method, size_t channel = 1) {
  const at::NoGradGuard no_grad;
  const ChannelMap map = analyze_channels(graph);
  Removed result;
  result.done = compensated(graph, map, {map.groups[0].channels[channel]}, find_compensation(method));
  verify(result.done.graph);
  const auto inputs = random_inputs(graph, 4, 7);
  const auto expected = forward(graph, inputs).outputs, found = forward(result.done.graph, inputs).outputs;
  for (size_t i = 0; i < expected.size(); ++i)
    result.error = std::max(
        result.error, (found[i] - expected[i]).abs().max().item<double>() / expected[i].abs().max().item<double>());
  return result;
}

constexpr const char* kMethods[] = {"most-sim", "nnls", "gaussian", "ot"};

// Rows of a weight [8, …] of which row 1 is a fifth of row 0, give or take `noise`.
at::Tensor rows_with_copy(const Ints& dims, double noise = 0) {
  at::Tensor w = at::randn(dims, at::kDouble) * 0.5;
  w[1].copy_(w[0] * 0.2 + noise * at::randn_like(w[0]));
  return w;
}

// γ, β, μ, σ² of 8 channels with which channel 1, a fifth of channel 0, comes out as `gain` times it.
std::vector<std::string> norm_of_copy(TestGraph& g, double gain) {
  at::Tensor gamma = at::rand({8}, at::kDouble) + 0.5, beta = at::randn({8}, at::kDouble) * 0.3;
  at::Tensor mean = at::randn({8}, at::kDouble) * 0.3, variance = at::rand({8}, at::kDouble) + 0.5;
  gamma[1] = gamma[0] * 5 * gain;
  beta[1] = beta[0] * gain;
  mean[1] = mean[0] * 0.2;
  variance[1] = variance[0];
  return {g.tensor(gamma), g.tensor(beta), g.tensor(mean), g.tensor(variance)};
}

std::string normed(TestGraph& g, const std::string& x, double gain) {
  const auto p = norm_of_copy(g, gain);
  return g.node("BatchNormalization", {x, p[0], p[1], p[2], p[3]});
}

std::string pooled(TestGraph& g, const std::string& x, const std::string& op = "MaxPool") {
  return g.node(op, {x}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
}

Graph pool_between(double noise = 0) {
  TestGraph g(1);
  const auto made = g.node("Conv", {g.input("x", {-1, 3, 8, 8}), g.tensor(rows_with_copy({8, 3, 3, 3}, noise))});
  return g.finish(g.conv(g.relu(normed(g, pooled(g, made), 1)), 8, 4));
}

// Two batch norms read the same channels, each with a scale of its own (DenseNet, pre-activation residual networks).
Graph two_norms(double noise = 0) {
  TestGraph g(2);
  const auto made = g.node("Conv", {g.input("x", {-1, 3, 8, 8}), g.tensor(rows_with_copy({8, 3, 3, 3}, noise))});
  const auto left = g.conv(g.relu(normed(g, made, 1)), 8, 4), right = g.conv(g.relu(normed(g, made, 3)), 8, 4);
  return g.finish(g.node("Add", {left, right}));
}

Graph concatenated(double noise = 0) {
  TestGraph g(3);
  const auto x = g.input("x", {-1, 3, 8, 8});
  const auto made = g.node("Conv", {x, g.tensor(rows_with_copy({8, 3, 1, 1}, noise))});
  const auto both =
      g.node("Concat", {g.conv(x, 3, 2), g.node("Dropout", {normed(g, made, 2)})}, {{"axis", int64_t{1}}});
  return g.finish(g.conv(pooled(g, g.relu(both), "AveragePool"), 10, 4));
}

// A factor after the activation, and one before it.
Graph multiplied(double noise = 0) {
  TestGraph g(4);
  at::Tensor before = at::rand({8, 1, 1}, at::kDouble) + 0.5;
  before[1] = before[0] * 5;
  const auto made = g.node("Conv", {g.input("x", {-1, 3, 8, 8}), g.tensor(rows_with_copy({8, 3, 3, 3}, noise))});
  const auto a = g.relu(g.node("Mul", {made, g.tensor(before)}));
  return g.finish(g.conv(g.node("Mul", {a, g.positive({8, 1, 1})}), 8, 4));
}

Graph matrix_and_sum(double noise = 0) {
  TestGraph g(5);
  at::Tensor bias = at::randn({8}, at::kDouble);
  bias[1] = bias[0] * 0.2;
  const auto made = g.node("MatMul", {g.input("x", {-1, 6}), g.tensor(rows_with_copy({8, 6}, noise).t().contiguous())});
  const auto a = g.relu(g.node("Add", {made, g.tensor(bias)}));
  return g.finish(g.linear(a, 8, 3));
}

Graph depthwise_and_pool(double noise = 0) {
  TestGraph g(6);
  at::Tensor kernels = at::randn({8, 1, 3, 3}, at::kDouble);
  kernels[1].copy_(kernels[0] * 2);
  const auto made = g.node("Conv", {g.input("x", {-1, 3, 8, 8}), g.tensor(rows_with_copy({8, 3, 1, 1}, noise))});
  const auto a = pooled(g, g.relu(normed(g, made, 1)));
  const auto b = g.node("Conv", {a, g.tensor(kernels)}, {{"group", int64_t{8}}, {"pads", Ints{1, 1, 1, 1}}});
  return g.finish(g.conv(g.relu(b), 8, 4, 1));
}

using Maker = Graph (*)(double);
constexpr std::pair<const char*, Maker> kGraphs[] = {
    {"a pool between", pool_between}, {"two norms", two_norms},           {"concatenated", concatenated},
    {"multiplied", multiplied},       {"MatMul and Add", matrix_and_sum}, {"depthwise and pool", depthwise_and_pool},
};

TEST(Readers, TakeOverCopiesExactly) {
  for (const auto& [name, make] : kGraphs) {
    const Graph graph = make(0);
    EXPECT_GT(without_channel(graph, "none").error, 1e-3) << name;
    for (const char* method : kMethods) {
      const Removed removed = without_channel(graph, method);
      EXPECT_LE(removed.error, 1e-9) << name << ", " << method;
      EXPECT_EQ(removed.done.groups.at(0), "1 of 1 merged") << name << ", " << method;
      EXPECT_LE(without_channel(cast(graph, at::kFloat), method).error, 1e-5) << name << ", " << method << ", float";
    }
  }
}

// What is nearly a copy is no business of the exact rule: the methods have to see the way to the reader themselves.
TEST(Readers, TakeOverWhatIsNearlyACopy) {
  for (const auto& [name, make] : kGraphs) {
    const Graph graph = make(1e-4);
    const double none = without_channel(graph, "none").error;
    for (const char* method : {"most-sim", "nnls"})
      EXPECT_LE(without_channel(graph, method).error, 0.02 * none) << name << ", " << method;
  }
}

TEST(Readers, OffsetsAfterAnActivationAreTakenOver) {
  TestGraph g(7);
  const auto a = g.relu(g.node("MatMul", {g.input("x", {-1, 6}), g.tensor(rows_with_copy({8, 6}).t().contiguous())}));
  const auto shifted = g.node("Add", {a, g.random({8})});
  // Gemm with factors of its own, whose bias takes the offset divided.
  const Graph graph = g.finish(g.node("Gemm", {shifted, g.random({3, 8}), g.random({3})},
                                      {{"transB", int64_t{1}}, {"alpha", 0.5}, {"beta", 2.0}}));
  for (const char* method : kMethods) EXPECT_LE(without_channel(graph, method).error, 1e-9) << method;
}

TEST(Readers, AnOffsetWithoutAPlaceIsReported) {
  TestGraph g(8);
  const auto a = g.relu(g.node("MatMul", {g.tensor(rows_with_copy({8, 6})), g.input("x", {6, 5})}));
  const auto shifted = g.node("Add", {a, g.random({8, 1})});
  const Graph graph = g.finish(g.node("MatMul", {g.random({3, 8}), shifted}));
  const Removed removed = without_channel(graph, "most-sim");
  EXPECT_NE(removed.done.groups.at(0).find("no bias that an offset could go into"), std::string::npos)
      << removed.done.groups.at(0);
}

TEST(Readers, WhatSumsWithoutAWeightIsReported) {
  TestGraph g(9);
  const auto x = g.input("x", {-1, 5, 6});
  const auto q = g.node("MatMul", {x, g.tensor(rows_with_copy({8, 6}).t().contiguous())});
  const auto k = g.node("MatMul", {x, g.tensor(rows_with_copy({8, 6}).t().contiguous())});
  const auto scores = g.node("MatMul", {q, g.node("Transpose", {k}, {{"perm", Ints{0, 2, 1}}})});
  const Graph graph = g.finish(g.node("MatMul", {g.node("Softmax", {scores}), x}));
  for (const char* method : kMethods) {
    const std::string text = without_channel(graph, method).done.groups.at(0);
    EXPECT_NE(text.find("without a weight"), std::string::npos) << method << ": " << text;
  }
}

// Halves that go separate ways: a channel of one has no partner in the other, however similar their filters are.
TEST(Readers, OtherWaysAreOtherChannels) {
  TestGraph g(10);
  const auto made = g.node("Conv", {g.input("x", {-1, 3, 8, 8}), g.tensor(rows_with_copy({8, 3, 3, 3}))});
  const auto halves = g.node("Split", {made, g.integers({1, 7})}, {{"axis", int64_t{1}}}, 2);
  const auto joined = g.node("Concat", {g.node("Tanh", {halves[0]}), g.relu(halves[1])}, {{"axis", int64_t{1}}});
  const Graph graph = g.finish(g.conv(joined, 8, 4));
  const ChannelMap map = analyze_channels(graph);
  const std::set<ChannelId> removed = {map.groups[0].channels[1]};
  ReaderMerging merging(graph, map, removed);
  const Merge merge = merging.merge(map.groups[0], [](const MergeProblem& p) { return Merge{.Z = identity_merge(p)}; });
  for (const ReaderMerge& reader : merge.readers) EXPECT_TRUE(reader.copies.empty());
}

TEST(Readers, WeightsThatAreNotFiniteAreRefused) {
  Graph graph = pool_between(1e-3);
  at::Tensor weight = graph.tensor("t0").clone();
  weight[4][0][0][0] = std::numeric_limits<double>::quiet_NaN();
  graph.tensors["t0"] = weight;
  const ChannelMap map = analyze_channels(graph);
  const Compensated done = compensated(graph, map, {map.groups[0].channels[1]}, find_compensation("most-sim"));
  EXPECT_NE(done.groups.at(0).find("not finite"), std::string::npos) << done.groups.at(0);
}

// A neuron that nobody reads is removed without a trace, twin or not.
TEST(Transport, ANeuronThatNobodyReadsLeavesNoTrace) {
  TestGraph g(11);
  const auto x = g.input("x", {-1, 6});
  at::Tensor w = at::randn({8, 6}, at::kDouble), next = at::randn({3, 8}, at::kDouble);
  w[1].copy_(w[0]);
  w[5].copy_(w[0]);
  next.select(1, 2).zero_();
  const auto a = g.relu(g.node("Gemm", {x, g.tensor(w)}, {{"transB", int64_t{1}}}));
  const Graph graph = g.finish(g.node("Gemm", {a, g.tensor(next)}, {{"transB", int64_t{1}}}));
  EXPECT_LE(without_channel(graph, "none", 2).error, 1e-12);
  EXPECT_LE(without_channel(graph, "ot", 2).error, 1e-12);
}

// Every neuron twice, with other norms; some go. What is left must come closer to the whole than the cut alone does.
TEST(Transport, BringsBackWhatSimilarNeuronsCanStandFor) {
  for (const bool with_norm : {false, true}) {
    TestGraph g(3);
    auto x = g.input("x", {-1, 10});
    const at::Tensor half = at::randn({8, 10}, at::kDouble);
    auto hidden = g.node("Gemm", {x, g.tensor(at::cat({half, 0.8 * half + 0.1 * at::randn({8, 10}, at::kDouble)}))},
                         {{"transB", int64_t{1}}});
    if (with_norm)
      hidden = g.node("BatchNormalization", {hidden, g.positive({16}), g.tensor(at::zeros({16}, at::kDouble)),
                                             g.tensor(at::zeros({16}, at::kDouble)), g.positive({16})});
    const Graph dense =
        g.finish(g.node("Gemm", {g.relu(hidden), g.tensor(at::rand({3, 16}, at::kDouble))}, {{"transB", int64_t{1}}}));
    const ChannelMap map = analyze_channels(dense);
    std::set<ChannelId> removed;
    for (size_t i = 12; i < 16; ++i) removed.insert(map.groups.front().channels[i]);
    const auto inputs = random_inputs(dense, 16, 5);
    const at::Tensor expected = forward(dense, inputs).outputs[0];
    const auto apart = [&](const char* method) {
      const Graph cut = compensated(dense, map, removed, find_compensation(method)).graph;
      return (forward(cut, inputs).outputs[0] - expected).abs().max().item<double>();
    };
    EXPECT_LT(apart("ot"), 0.9 * apart("none"));
  }
}

// A chain of depthwise layers and sums would multiply filters out beyond any memory: it is refused with a reason.
TEST(Readers, FiltersThatGrowWithoutBoundAreRefused) {
  TestGraph g(7);
  auto x = g.conv(g.input("x", {-1, 3, 6, 6}), 3, 16);
  for (int i = 0; i < 8; ++i) x = g.node("Add", {x, g.conv(x, 16, 16, 3, 16)});
  for (int i = 0; i < 30; ++i) x = g.node("Add", {x, x});
  const Graph graph = g.finish(g.conv(g.relu(x), 16, 4));
  const ChannelMap map = analyze_channels(graph);
  ASSERT_TRUE(map.groups[0].prunable());
  const std::set<ChannelId> removed = {map.groups[0].channels[3]};
  const Compensated done = compensated(graph, map, removed, find_compensation("most-sim"));
  EXPECT_NE(done.groups.at(0).find("too large to compare"), std::string::npos) << done.groups.at(0);
}

}  // namespace
}  // namespace pare
