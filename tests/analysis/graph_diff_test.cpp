// What changed between two graphs.
#include "pare/compare.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "pare/passes/fold_batch_norm.h"
#include "pare/zoo/zoo.h"
#include "support/builder.h"

namespace pare {
namespace {

const NodeDiff& only_change(const GraphDiff& diff) {
  EXPECT_EQ(diff.count(NodeChange::same) + 1, diff.nodes.size());
  for (const auto& node : diff.nodes)
    if (node.change == NodeChange::changed) return node;
  ADD_FAILURE() << "nothing changed";
  return diff.nodes.front();
}

TEST(GraphDiff, TheSameGraph) {
  const Graph graph = build("lenet-5");
  const GraphDiff diff = pare::diff(graph, graph);
  EXPECT_EQ(diff.count(NodeChange::same), graph.nodes.size());
  EXPECT_EQ(diff.nodes.size(), graph.nodes.size());
}

TEST(GraphDiff, InputsOfOtherExtents) {
  Graph a = build("lenet-5");
  a.inputs[0].dims->at(0) = {-1, "N"};
  Graph b = a;
  b.inputs[0].dims->at(0) = {1, ""};
  const GraphDiff diff = pare::diff(a, b);
  ASSERT_EQ(diff.inputs.size(), 1U);
  EXPECT_EQ(diff.inputs[0].a, "float32 ?x1x28x28");
  EXPECT_EQ(diff.inputs[0].b, "float32 1x1x28x28");
  b.inputs[0].dims->at(0) = {-1, "batch"};  // open by another name
  EXPECT_TRUE(pare::diff(a, b).inputs.empty());
}

TEST(GraphDiff, OneWeight) {
  const Graph a = build("lenet-300-100");
  Graph b = a;
  at::Tensor& weight = b.tensors.at("ip2.weight");
  weight = weight * 2;
  const GraphDiff diff = pare::diff(a, b);
  EXPECT_EQ(diff.count(NodeChange::changed), 1U);
  for (const auto& node : diff.nodes)
    if (node.change == NodeChange::changed) {
      EXPECT_EQ(node.what, "weights");
      const double w = a.tensors.at("ip2.weight").norm().item<double>();
      const double bias = a.tensors.at("ip2.bias").norm().item<double>();
      EXPECT_NEAR(node.weight_distance, w / std::hypot(w, bias), 1e-6);
    }
}

TEST(GraphDiff, AWeightThatIsNoNumber) {
  const Graph a = build("lenet-300-100");
  const auto with = [&](const std::vector<std::pair<int64_t, double>>& values) {
    Graph graph = a;
    at::Tensor& weight = graph.tensors.at("ip2.weight");
    weight = weight.clone();
    for (const auto& [place, value] : values) weight.view(-1)[place] = value;
    return graph;
  };
  const Graph none = with({{3, NAN}});
  const GraphDiff lost = diff(a, none);
  EXPECT_EQ(only_change(lost).what, "weights");
  EXPECT_TRUE(std::isinf(only_change(lost).weight_distance));
  EXPECT_TRUE(std::isinf(only_change(diff(none, a)).weight_distance));
  EXPECT_EQ(pare::diff(none, none).count(NodeChange::same), a.nodes.size());
  // Where both have none, the others count.
  const double moved = only_change(diff(none, with({{3, NAN}, {4, 100}}))).weight_distance;
  EXPECT_TRUE(std::isfinite(moved));
  EXPECT_GT(moved, 1);
  EXPECT_TRUE(std::isinf(only_change(diff(a, with({{3, INFINITY}}))).weight_distance));
  EXPECT_EQ(pare::diff(with({{3, INFINITY}}), with({{3, INFINITY}})).count(NodeChange::same), a.nodes.size());
}

// The difference of two layers, or of two inputs, one way or the other.
Graph difference_of(bool layers, bool swapped) {
  TestGraph net;
  std::string left = net.input("left", {1, 4});
  std::string right = net.input("right", {1, 4});
  if (layers) {
    left = net.linear(left, 4, 3);
    right = net.linear(right, 4, 3);
  }
  if (swapped) std::swap(left, right);
  return net.finish(net.node("Sub", {left, right}));
}

TEST(GraphDiff, SwappedInputs) {
  for (const bool layers : {true, false}) {
    const Graph a = difference_of(layers, false);
    const GraphDiff diff = pare::diff(a, difference_of(layers, true));
    EXPECT_EQ(only_change(diff).op, "Sub");
    EXPECT_EQ(only_change(diff).what, "inputs");
    EXPECT_EQ(pare::diff(a, difference_of(layers, false)).count(NodeChange::same), a.nodes.size());
  }
}

TEST(GraphDiff, AConstantInTheOtherPlace) {
  const auto net = [](bool constant_first) {
    TestGraph graph;
    const std::string x = graph.input("x", {1, 4});
    const std::string one = graph.tensor(at::ones({4}, at::kDouble));
    return graph.finish(constant_first ? graph.node("Sub", {one, x}) : graph.node("Sub", {x, one}));
  };
  EXPECT_EQ(only_change(diff(net(false), net(true))).what, "inputs");
}

TEST(GraphDiff, AnInputOfAnotherLayer) {
  const auto net = [](bool skips) {
    TestGraph graph;
    const std::string x = graph.input("x", {1, 4});
    const std::string first = graph.linear(x, 4, 4);
    const std::string second = graph.relu(first);
    return graph.finish(graph.node("Add", {second, skips ? first : x}));
  };
  EXPECT_EQ(only_change(diff(net(false), net(true))).what, "inputs");
}

TEST(GraphDiff, AFoldedBatchNormIsANodeRemoved) {
  const Graph a = build("convnet-bn");
  const GraphDiff diff = pare::diff(a, fold_batch_norm(a));
  EXPECT_EQ(diff.count(NodeChange::removed), 2U);
  EXPECT_EQ(diff.count(NodeChange::added), 0U);
  EXPECT_EQ(diff.count(NodeChange::changed), 2U);
  for (const auto& node : diff.nodes) {
    if (node.change == NodeChange::removed) {
      EXPECT_EQ(node.op, "BatchNormalization");
    }
    // What read the batch norm reads the convolution now: that is said by the node that is gone.
    if (node.change == NodeChange::changed) {
      EXPECT_EQ(node.op, "Conv");
    }
    EXPECT_EQ(node.what.find("inputs"), std::string::npos) << node.op;
  }
}

TEST(GraphDiff, RenamedNodesLineUp) {
  const Graph a = build("lenet-5");
  Graph b = a;
  for (size_t i = 0; i < b.nodes.size(); ++i) b.nodes[i].name = "node_" + std::to_string(i);
  EXPECT_EQ(pare::diff(a, b).count(NodeChange::same), a.nodes.size());
}

TEST(GraphDiff, NarrowerLayers) {
  const GraphDiff diff = pare::diff(build("lenet-300-100"), build("lenet-300-100", {.width = 0.5}));
  EXPECT_EQ(diff.count(NodeChange::added) + diff.count(NodeChange::removed), 0U);
  for (const auto& node : diff.nodes)
    if (node.op == "Gemm") {
      EXPECT_NE(node.what.find("weight shape"), std::string::npos);
      EXPECT_TRUE(std::isnan(node.weight_distance));
      EXPECT_GT(node.a->parameters, node.b->parameters);
    }
}

}  // namespace
}  // namespace pare
