// What changed between two graphs.
#include "pare/analysis/graph_diff.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "pare/passes/fold_batch_norm.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

TEST(GraphDiff, TheSameGraph) {
  const Graph graph = build("lenet-5");
  const GraphDiff diff = diff_graphs(graph, graph);
  EXPECT_EQ(diff.count(NodeChange::same), graph.nodes.size());
  EXPECT_EQ(diff.nodes.size(), graph.nodes.size());
}

TEST(GraphDiff, OneWeight) {
  const Graph a = build("lenet-300-100");
  Graph b = a;
  at::Tensor& weight = b.tensors.at("ip2.weight");
  weight = weight * 2;
  const GraphDiff diff = diff_graphs(a, b);
  EXPECT_EQ(diff.count(NodeChange::changed), 1U);
  for (const auto& node : diff.nodes)
    if (node.change == NodeChange::changed) {
      EXPECT_EQ(node.what, "weights");
      const double w = a.tensors.at("ip2.weight").norm().item<double>();
      const double bias = a.tensors.at("ip2.bias").norm().item<double>();
      EXPECT_NEAR(node.weight_distance, w / std::hypot(w, bias), 1e-6);
    }
}

TEST(GraphDiff, AFoldedBatchNormIsANodeRemoved) {
  const Graph a = build("convnet-bn");
  const GraphDiff diff = diff_graphs(a, fold_batch_norm(a));
  EXPECT_EQ(diff.count(NodeChange::removed), 2U);
  EXPECT_EQ(diff.count(NodeChange::added), 0U);
  for (const auto& node : diff.nodes)
    if (node.change == NodeChange::removed) {
      EXPECT_EQ(node.op, "BatchNormalization");
    }
}

TEST(GraphDiff, RenamedNodesLineUp) {
  const Graph a = build("lenet-5");
  Graph b = a;
  for (size_t i = 0; i < b.nodes.size(); ++i) b.nodes[i].name = "node_" + std::to_string(i);
  EXPECT_EQ(diff_graphs(a, b).count(NodeChange::same), a.nodes.size());
}

TEST(GraphDiff, NarrowerLayers) {
  const GraphDiff diff = diff_graphs(build("lenet-300-100"), build("lenet-300-100", {.width = 0.5}));
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
