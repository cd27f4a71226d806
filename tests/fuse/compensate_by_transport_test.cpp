// The dense network fused into the one cut from it, as published, and the blocks by which networks are carried.
#include "pare/fuse/compensate_by_transport.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "pare/fuse/channel_transport.h"
#include "pare/passes/remove_channels.h"
#include "pare/run.h"
#include "pare/transport/exact.h"
#include "support/builder.h"

namespace pare {
namespace {

TEST(Compensation, OfAnUncutNetworkChangesNothing) {
  TestGraph g(4);
  const auto hidden = g.relu(g.linear(g.input("x", {-1, 6}), 6, 8));
  const Graph net = g.finish(g.linear(hidden, 8, 3));
  const auto inputs = random_inputs(net, 3, 1);
  const at::Tensor expected = forward(net, inputs).outputs[0];
  EXPECT_LE((forward(compensate_by_transport(net, {}), inputs).outputs[0] - expected).abs().max().item<double>(), 1e-9);
}

// Section 5.2 of the paper, written slowly: T between the rows with their biases, both layers averaged with λ = ½.
TEST(Compensation, AsPublishedIsTheAverageOfTheCarriedAndTheCut) {
  TestGraph g(5);
  const auto hidden = g.relu(g.linear(g.input("x", {-1, 6}), 6, 8));
  const Graph dense = g.finish(g.linear(hidden, 8, 3));
  const ChannelMap map = analyze_channels(dense);
  const auto& channels = map.groups.front().channels;
  const std::set<ChannelId> removed = {channels[1], channels[4], channels[6]};
  const Graph cut = remove_channels(dense, map, removed);
  const Graph fused = compensate_by_transport(dense, removed);
  const auto rows = [](const Graph& graph) {
    return at::cat({graph.tensor("t0"), graph.tensor("t1").unsqueeze(1)}, 1);
  };
  const at::Tensor D = at::cdist(rows(dense), rows(cut));
  const at::Tensor T = solve_transport(D).plan;
  const at::Tensor beta = T.sum(0);
  const at::Tensor W = at::mm((T / beta).t(), rows(dense)), V = at::mm(dense.tensor("t2"), T / beta);
  const auto largest = [](const at::Tensor& x) { return x.abs().max().item<double>(); };
  EXPECT_LE(largest(rows(fused) - (W + rows(cut)) / 2), 1e-9);
  EXPECT_LE(largest(fused.tensor("t2") - (V + cut.tensor("t2")) / 2), 1e-9);
  EXPECT_GT(largest(fused.tensor("t2") - cut.tensor("t2")), 1e-2);
}

// One channel is left before a depthwise layer, and one on both sides of a layer: the cut network, looked at alone, has
// other classes than the dense one.
TEST(Compensation, OfSingleChannelsKeepsTheClassesOfTheDenseNetwork) {
  TestGraph g(8);
  const auto depthwise = g.conv(g.relu(g.conv(g.input("x", {-1, 2, 6, 6}), 2, 4)), 4, 4, 3, 4);
  const auto flat = g.node("Flatten", {g.relu(g.conv(depthwise, 4, 3))});
  const Graph dense = g.finish(g.linear(flat, 3 * 36, 2));
  const ChannelMap map = analyze_channels(dense);
  std::set<ChannelId> removed;
  for (const auto& group : map.groups)
    if (group.reason.empty()) removed.insert(group.channels.begin() + 1, group.channels.end());
  ASSERT_EQ(removed.size(), 5U);
  const Graph fused = compensate_by_transport(dense, removed), cut = remove_channels(dense, map, removed);
  ASSERT_EQ(fused.nodes.size(), cut.nodes.size());
  // With one channel to carry to, T/β is the mean over the dense channels.
  const at::Tensor mean = dense.tensor(dense.nodes[0].inputs[1]).mean(0, true);
  const at::Tensor expected = (mean + cut.tensor(cut.nodes[0].inputs[1])) / 2;
  EXPECT_LE((fused.tensor(fused.nodes[0].inputs[1]) - expected).abs().max().item<double>(), 1e-9);
  EXPECT_EQ(forward(fused, random_inputs(fused, 2, 1)).outputs[0].size(1), 2);
}

// A flattened map has every channel once per pixel: carried block by block, as a matrix over all entries would.
TEST(ChannelTransport, CarriesFlattenedMapsByBlocks) {
  TestGraph g(6);
  const auto map = g.relu(g.conv(g.input("x", {-1, 2, 3, 4}), 2, 5));
  const Graph source = g.finish(g.linear(g.node("Flatten", {map}), 60, 3));
  const ChannelMap channels = analyze_channels(source);
  const Graph cut = remove_channels(source, channels, {channels.groups.front().channels[2]});
  const Network B = analyze_network(cut);
  const Network A = matched_to(B, analyze_network(source));
  ClassMaps maps;
  for (size_t c = 0; c < A.classes.size(); ++c)
    maps.push_back(A.classes[c].fixed ? identity_map(A.classes[c].size)
                                      : make_map(at::rand({A.classes[c].size, B.classes[c].size}, at::kDouble),
                                                 ColumnScaling::preserving));
  const at::Tensor M = maps.front().columns;  // the convolution's class comes first
  const at::Tensor expected =
      at::tensordot(source.tensor("t2").reshape({3, 5, 12}), M, {1}, {0}).movedim(-1, 1).reshape({3, 48});
  const at::Tensor found = carried_network(A, B, maps).tensor("t2");
  EXPECT_LE((found - expected).abs().max().item<double>(), 1e-12);
}

// A matrix over all 25,088 entries of this map and the 12,544 of the cut one would take 2.5 GB.
TEST(ChannelTransport, NeedsNoMatrixOverTheEntriesOfAFlattenedMap) {
  TestGraph g(7);
  const auto map = g.relu(g.conv(g.input("x", {-1, 2, 14, 14}), 2, 128, 1));
  const Graph source = g.finish(g.linear(g.node("Flatten", {map}), 128 * 196, 2));
  const ChannelMap channels = analyze_channels(source);
  const auto& made = channels.groups.front().channels;
  const Network B = analyze_network(remove_channels(source, channels, {made.begin() + 64, made.end()}));
  const Network A = matched_to(B, analyze_network(source));
  ClassMaps maps;
  for (size_t c = 0; c < A.classes.size(); ++c)
    maps.push_back(A.classes[c].fixed ? identity_map(A.classes[c].size)
                                      : make_map(at::rand({128, 64}, at::kDouble), ColumnScaling::published));
  const auto peak = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // kB
  };
  const int64_t before = peak();
  EXPECT_EQ(carried_network(A, B, maps).tensor("t2").size(1), 64 * 196);
  EXPECT_LT(peak() - before, 500'000);
}

}  // namespace
}  // namespace pare
