#include "pare/passes/simplify.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "pare/ops/onednn.h"
#include "pare/ops/op.h"
#include "pare/passes/fold_batch_norm.h"
#include "pare/passes/for_inference.h"
#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

using Ints = std::vector<int64_t>;

void expect_same(const Graph& a, const Graph& b, int64_t batch) {
  const at::NoGradGuard no_grad;
  const auto inputs = random_inputs(a, batch, 3);
  EXPECT_TRUE(at::allclose(forward(a, inputs).outputs[0], forward(b, inputs).outputs[0], 1e-10, 1e-10));
}

size_t count(const Graph& graph, const std::string& op) {
  size_t n = 0;
  for (const auto& node : graph.nodes) n += node.op == op ? 1 : 0;
  return n;
}

// x.view(x.size(0), -1) as PyTorch's exporter leaves it.
TEST(Simplify, FoldsShapeArithmeticAroundTheBatch) {
  TestGraph g;
  auto x = g.conv(g.input("x", {-1, 3, 4, 4}), 3, 5);
  auto shape = g.node("Shape", {x});
  auto n = g.node(
      "Unsqueeze",
      {g.node("Gather", {shape, g.tensor(at::scalar_tensor(0, at::kLong))}, {{"axis", int64_t{0}}}), g.integers({0})});
  auto c = g.node("Gather", {shape, g.integers({1})}, {{"axis", int64_t{0}}});
  auto rest = g.node("Mul", {c, g.integers({16})});
  auto target = g.node("Concat", {n, rest}, {{"axis", int64_t{0}}});
  const Graph graph = g.finish(g.linear(g.node("Reshape", {x, target}), 80, 3));
  const Graph simple = simplify(graph);
  EXPECT_EQ(simple.nodes.size(), 3) << "Conv, Reshape, Gemm";
  for (const int64_t batch : {1, 2, 7}) expect_same(graph, simple, batch);
}

TEST(Simplify, FoldsConstantsAndDropsIdentities) {
  TestGraph g;
  auto x = g.input("x", {-1, 4});
  auto w = g.node("Transpose", {g.random({3, 4})}, {{"perm", Ints{1, 0}}});
  const Graph graph = g.finish(
      g.node("MatMul", {g.node("Identity", {x}), g.node("Mul", {w, g.tensor(at::scalar_tensor(2.0, at::kDouble))})}));
  const Graph simple = simplify(graph);
  EXPECT_EQ(simple.nodes.size(), 1);
  expect_same(graph, simple, 3);
}

TEST(Simplify, DoesNotBlowConstantsUp) {
  TestGraph g;
  auto x = g.input("x", {1});
  auto huge = g.node("ConstantOfShape", {g.integers({1 << 20, 1 << 20})});
  const Graph graph = g.finish(g.node("Add", {x, g.node("ReduceMax", {huge})}));
  EXPECT_EQ(count(simplify(graph), "ConstantOfShape"), 1);
}

TEST(FoldBatchNorm, KeepsTheFunctionOfEveryLayerKind) {
  TestGraph g;
  auto x = g.relu(g.batch_norm(g.conv(g.input("x", {-1, 3, 6, 6}), 3, 4), 4));
  x = g.batch_norm(g.node("Conv", {x, g.random({4, 1, 3, 3})}, {{"group", int64_t{4}}, {"pads", Ints{1, 1, 1, 1}}}), 4);
  x = g.batch_norm(g.node("ConvTranspose", {x, g.random({4, 3, 2, 2}), g.random({6})},
                          {{"group", int64_t{2}}, {"strides", Ints{2, 2}}}),
                   6);
  x = g.node("Flatten", {g.node("GlobalAveragePool", {x})});
  const Graph graph = g.finish(g.batch_norm(g.linear(x, 6, 5), 5));
  const Graph folded = fold_batch_norm(graph);
  EXPECT_EQ(count(graph, "BatchNormalization"), 4);
  EXPECT_EQ(count(folded, "BatchNormalization"), 0);
  expect_same(graph, folded, 3);
  expect_same(graph, for_inference(graph), 3);
}

// Linear layers in floats, with and without bias and Relu, one read twice and one that is an output.
TEST(ForInference, PackedLinearLayersKeepTheFunction) {
  TestGraph g;
  auto x = g.input("x", {-1, 70});
  auto a = g.relu(g.linear(x, 70, 33));
  auto b = g.node("Gemm", {a, g.random({17, 33})}, {{"transB", int64_t{1}}});
  auto twice = g.node("Add", {g.relu(b), b});
  const Graph graph = cast(g.finish(g.linear(twice, 17, 5)), at::kFloat);
  const Graph fast = for_inference(graph);
  const at::NoGradGuard no_grad;
  for (const int64_t batch : {1, 3, 300}) {
    const auto inputs = random_inputs(graph, batch, 4);
    EXPECT_TRUE(at::allclose(forward(fast, inputs).outputs[0], forward(graph, inputs).outputs[0], 1e-4, 1e-4));
  }
  if (!onednn_available()) GTEST_SKIP() << "this build has no oneDNN: nothing was packed";
  EXPECT_EQ(count(fast, "Linear"), 3);
  EXPECT_EQ(count(fast, "Relu"), 1) << "the first Relu is part of its layer";
}

// A broken network must look broken, not like one that guesses.
TEST(ForInference, WhatIsNotANumberStaysSo) {
  TestGraph g;
  const auto weight = g.random({33, 70});
  auto x = g.relu(g.node("Gemm", {g.input("x", {-1, 70}), weight}, {{"transB", int64_t{1}}}));
  Graph graph = cast(g.finish(g.linear(x, 33, 5)), at::kFloat);
  graph.tensors[weight][3][4] = std::numeric_limits<float>::quiet_NaN();
  const at::NoGradGuard no_grad;
  const auto inputs = random_inputs(graph, 9, 4);
  EXPECT_TRUE(at::isnan(forward(graph, inputs).outputs[0]).all().item<bool>());
  EXPECT_TRUE(at::isnan(forward(for_inference(graph), inputs).outputs[0]).all().item<bool>());
}

TEST(FoldBatchNorm, LeavesALayerThatOthersRead) {
  TestGraph g;
  auto y = g.conv(g.input("x", {-1, 3, 6, 6}), 3, 4);
  const Graph graph = g.finish(g.node("Add", {g.batch_norm(y, 4), y}));
  EXPECT_EQ(count(fold_batch_norm(graph), "BatchNormalization"), 1);
  expect_same(graph, fold_batch_norm(graph), 2);
}

}  // namespace
}  // namespace pare
