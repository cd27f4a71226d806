// Emptied channels go, and the outputs stay.
#include "pare/compensate/empty.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/analysis/cost.h"
#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

void expect_same(const Graph& a, const Graph& b) {
  const auto inputs = random_inputs(a, 3, 5);
  const at::Tensor x = forward(a, inputs).outputs.at(0), y = forward(b, inputs).outputs.at(0);
  EXPECT_LE((x - y).abs().max().item<double>(), 1e-5 * x.abs().max().item<double>());
}

// conv → relu → conv → relu → linear; the weights in the order of the layers.
struct MaskedNet {
  Graph graph;
  std::vector<std::string> weights;
};

// A kernel of 1 has no border, one of 3 is padded.
MaskedNet masked_net(int64_t kernel) {
  TestGraph g(2);
  const auto x = g.input("x", {-1, 3, 6, 6});
  const auto a = g.relu(g.conv(x, 3, 8, kernel));
  const auto b = g.relu(g.conv(a, 8, 6, kernel));
  MaskedNet net{g.finish(g.linear(g.node("Flatten", {g.node("GlobalAveragePool", {b})}), 6, 4)), {}};
  for (const auto& node : net.graph.nodes)
    if (node.op == "Conv" || node.op == "Gemm") net.weights.push_back(node.inputs[1]);
  return net;
}

TEST(EmptyChannels, UnreadOnesGoAndWhatOnlyTheyRead) {
  MaskedNet n = masked_net(3);
  // Nothing reads channels 1 and 4 of the second layer: they go, and with them nothing else is lost.
  for (const int64_t c : {1, 4}) n.graph.tensors[n.weights[2]].select(1, c).zero_();
  // Channel 2 of the first layer is read by those two alone.
  for (const int64_t c : {0, 2, 3, 5}) n.graph.tensors[n.weights[1]][c].select(0, 2).zero_();
  const EmptyRemoved done = remove_empty_channels(n.graph);
  EXPECT_EQ(done.unread, 3);
  EXPECT_EQ(done.constant, 0);
  expect_same(n.graph, done.graph);
  EXPECT_LT(cost_of(done.graph).parameters, cost_of(n.graph).parameters);
}

TEST(EmptyChannels, ConstantsGoIntoTheBiases) {
  MaskedNet n = masked_net(1);
  n.graph.tensors[n.weights[0]][3].zero_();  // its bias stays
  n.graph.tensors[n.weights[1]][2].zero_();
  const EmptyRemoved done = remove_empty_channels(n.graph);
  EXPECT_EQ(done.constant, 2);
  expect_same(n.graph, done.graph);
}

TEST(EmptyChannels, AConstantBeforeAPaddedBorderStays) {
  MaskedNet n = masked_net(3);
  at::Tensor& weight = n.graph.tensors[n.weights[0]];
  weight[3].zero_();
  for (const auto& node : n.graph.nodes)
    if (node.op == "Conv" && node.inputs[1] == n.weights[0]) n.graph.tensors[node.inputs[2]].fill_(0.7);
  const EmptyRemoved done = remove_empty_channels(n.graph);
  EXPECT_EQ(done.constant, 0);
  expect_same(n.graph, done.graph);
}

TEST(EmptyChannels, OneChannelStays) {
  MaskedNet n = masked_net(1);
  n.graph.tensors[n.weights[2]].zero_();
  const EmptyRemoved done = remove_empty_channels(n.graph);
  EXPECT_GT(done.unread, 0);
  expect_same(n.graph, done.graph);
}

TEST(EmptyChannels, NothingEmptyNothingDone) {
  const MaskedNet n = masked_net(3);
  const EmptyRemoved done = remove_empty_channels(n.graph);
  EXPECT_EQ(done.unread + done.constant, 0);
  EXPECT_EQ(cost_of(done.graph).parameters, cost_of(n.graph).parameters);
}

}  // namespace
}  // namespace pare
