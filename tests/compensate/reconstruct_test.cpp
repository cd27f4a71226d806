// Regression on images: exact where the removed channels are functions of the kept ones, optimal elsewhere.
#include "pare/compensate/reconstruct.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/exec/program.h"
#include "pare/passes/remove_channels.h"
#include "support/builder.h"

namespace pare {
namespace {

using Ints = std::vector<int64_t>;

struct Case {
  Graph graph;
  ChannelMap map;
  std::set<ChannelId> removed;
  Graph pruned;
};

// Removes the second half of the channels of the first group.
Case halved(const Graph& graph) {
  Case c{graph, analyze_channels(graph), {}, {}};
  const auto& channels = c.map.groups[0].channels;
  c.removed.insert(channels.begin() + static_cast<int64_t>(channels.size() / 2), channels.end());
  c.pruned = remove_channels(graph, c.map, c.removed);
  return c;
}

Graph rebuilt(const Case& c, const std::vector<at::Tensor>& inputs, ReconstructOptions options = {}) {
  ReconstructReport report;
  const Graph graph = reconstruct(c.graph, c.pruned, c.map, c.removed, inputs, options, report);
  verify(graph);
  return graph;
}

double difference(const Graph& a, const Graph& b, const std::vector<at::Tensor>& inputs) {
  const at::NoGradGuard no_grad;
  return (forward(a, inputs).outputs[0] - forward(b, inputs).outputs[0]).abs().max().item<double>();
}

const ReconstructOptions kExact{.merge_ridge = 1e-12, .ridge = 1e-12, .own_ridge = 1e-3};

// The second half of the first layer's channels are copies of the first half.
void repeat(Graph& graph, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    at::Tensor t = graph.tensors[name].clone();
    const int64_t half = t.size(0) / 2;
    t.narrow(0, half, half).copy_(t.narrow(0, 0, half).clone());
    graph.tensors[name] = t;
  }
}

TEST(Reconstruct, RepeatedChannelsCostNothing) {
  TestGraph g(1);
  const auto a = g.relu(g.batch_norm(g.conv(g.input("x", {-1, 3, 8, 8}), 3, 8), 8));
  const auto b = g.relu(g.batch_norm(g.node("Conv", {a, g.random({6, 8, 3, 3})}, {{"pads", Ints{1, 1, 1, 1}}}), 6));
  Graph graph = g.finish(g.linear(g.node("Flatten", {b}, {{"axis", int64_t{1}}}), 6 * 64, 4));
  repeat(graph, {"t0", "t1", "t2", "t3", "t4", "t5"});
  const Case c = halved(graph);
  const auto inputs = random_inputs(graph, 40, 3);
  EXPECT_GT(difference(graph, c.pruned, inputs), 1e-2);
  EXPECT_LE(difference(graph, rebuilt(c, inputs, kExact), random_inputs(graph, 5, 9)), 1e-6);
}

TEST(Reconstruct, FlattenedAndGroupedReaders) {
  TestGraph g(2);
  const auto a = g.relu(g.conv(g.input("x", {-1, 3, 4, 4}), 3, 8));
  Graph flat = g.finish(g.linear(g.node("Flatten", {a}, {{"axis", int64_t{1}}}), 8 * 16, 5));
  repeat(flat, {"t0", "t1"});
  const Case c = halved(flat);
  const auto inputs = random_inputs(flat, 200, 3);
  EXPECT_LE(difference(flat, rebuilt(c, inputs, kExact), random_inputs(flat, 5, 9)), 1e-6);
  // Too wide to be solved: merged channel by channel.
  ReconstructOptions merged = kExact;
  merged.largest = 0;
  EXPECT_LE(difference(flat, rebuilt(c, inputs, merged), random_inputs(flat, 5, 9)), 1e-6);

  TestGraph h(3);
  const auto b = h.relu(h.conv(h.input("x", {-1, 3, 6, 6}), 3, 16));
  const Graph grouped = h.finish(h.conv(b, 16, 4, 3, 2));
  const Case d = halved(grouped);
  const auto images = random_inputs(grouped, 50, 3);
  EXPECT_LT(difference(grouped, rebuilt(d, images, kExact), images), 0.8 * difference(grouped, d.pruned, images));
}

TEST(Reconstruct, LinearLayerIsLeastSquares) {
  TestGraph g(4);
  const auto a = g.relu(g.linear(g.input("x", {-1, 6}), 6, 10));
  const Graph graph = g.finish(g.linear(a, 10, 3));
  const Case c = halved(graph);
  const auto inputs = random_inputs(graph, 300, 3);
  const at::NoGradGuard no_grad;
  const at::Tensor target = forward(graph, inputs).outputs[0];
  const at::Tensor kept = forward(graph, inputs, {.taps = {a}}).tapped.at(a).narrow(1, 0, 5);
  const at::Tensor X = at::cat({kept, at::ones({300, 1}, at::kDouble)}, 1);
  const at::Tensor best = at::mm(X, std::get<0>(at::linalg_lstsq(X, target)));
  EXPECT_LE((forward(rebuilt(c, inputs, kExact), inputs).outputs[0] - best).abs().max().item<double>(), 1e-6);
}

// What an earlier block lost comes through the shortcut; the layer beside it makes up for it.
TEST(Reconstruct, MakesUpForTheShortcut) {
  TestGraph g(5);
  const auto x = g.relu(g.conv(g.input("x", {-1, 3, 6, 6}), 3, 4));
  const auto branch = g.conv(g.relu(g.batch_norm(g.conv(x, 4, 12), 12)), 12, 4);
  const auto sum = g.relu(g.node("Add", {branch, x}));
  const auto inner = g.relu(g.batch_norm(g.conv(sum, 4, 12), 12));
  const auto second = g.batch_norm(g.conv(inner, 12, 4), 4);
  const Graph graph = g.finish(g.conv(g.relu(g.node("Add", {second, sum})), 4, 2, 1));
  Case c{graph, analyze_channels(graph), {}, {}};
  for (const auto& group : c.map.groups)
    if (group.channels.size() == 12) c.removed.insert(group.channels.begin(), group.channels.begin() + 6);
  ASSERT_EQ(c.removed.size(), 12U);
  c.pruned = remove_channels(graph, c.map, c.removed);
  const auto inputs = random_inputs(graph, 60, 3);
  const auto loss = [&](bool shortcut) {
    ReconstructOptions options{.ridge = 1e-6, .every_layer = false, .shortcut = shortcut};
    const at::NoGradGuard no_grad;
    const at::Tensor found = forward(rebuilt(c, inputs, options), inputs).outputs[0];
    return (found - forward(graph, inputs).outputs[0]).square().mean().item<double>();
  };
  EXPECT_LT(loss(true), loss(false));
}

TEST(Reconstruct, BatchNormsKeepTheirOutputStatistics) {
  TestGraph g(6);
  const auto a = g.relu(g.conv(g.input("x", {-1, 3, 6, 6}), 3, 8));
  const auto depthwise = g.batch_norm(g.conv(g.conv(a, 8, 6), 6, 6, 3, 6), 6);
  const Graph graph = g.finish(g.conv(g.relu(depthwise), 6, 2, 1));
  const Case c = halved(graph);
  const auto inputs = random_inputs(graph, 30, 3);
  const at::NoGradGuard no_grad;
  const Graph slim = rebuilt(c, inputs);
  const at::Tensor before = forward(graph, inputs, {.taps = {depthwise}}).tapped.at(depthwise);
  const at::Tensor after = forward(slim, inputs, {.taps = {depthwise}}).tapped.at(depthwise);
  EXPECT_LE((before.mean({0, 2, 3}) - after.mean({0, 2, 3})).abs().max().item<double>(), 1e-9);
  EXPECT_LE((before.std({0, 2, 3}) - after.std({0, 2, 3})).abs().max().item<double>(), 1e-9);
}

}  // namespace
}  // namespace pare
