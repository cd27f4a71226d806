// Batches that a file fixes and the graph need not: opened, each image gives what it gave alone.
#include "pare/passes/open_batch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

using Ints = std::vector<int64_t>;

// Outputs for five images against those of each batch in the original.
void expect_opened(const Graph& graph, int64_t batch = 1) {
  const std::optional<Graph> opened = open_batch(graph);
  ASSERT_TRUE(opened.has_value());
  EXPECT_FALSE(opened->inputs[0].dims->front().fixed());
  const auto inputs = random_inputs(*opened, 5 * batch, 11);
  const at::Tensor found = forward(*opened, inputs).outputs[0];
  for (int64_t i = 0; i < 5; ++i) {
    std::vector<at::Tensor> one;
    for (const auto& input : inputs) one.push_back(input.narrow(0, i * batch, batch));
    const at::Tensor expected = forward(graph, one).outputs[0];
    EXPECT_LE((found.narrow(0, i * batch, batch) - expected).abs().max().item<double>(), 1e-12);
  }
}

TEST(OpenBatch, ReshapeToAFixedRow) {
  for (const Ints& shape : {Ints{1, 36}, Ints{1, -1}, Ints{-1, 36}, Ints{0, 36}, Ints{1, 4, 9}}) {
    TestGraph g(1);
    const auto hidden = g.relu(g.conv(g.input("x", {1, 2, 3, 3}), 2, 4));
    const auto rows = g.node("Reshape", {hidden, g.integers(shape)});
    expect_opened(g.finish(shape.size() == 3 ? rows : g.linear(rows, 36, 3)));
  }
  TestGraph g(1);
  const auto hidden = g.relu(g.conv(g.input("x", {4, 2, 3, 3}), 2, 4));
  expect_opened(g.finish(g.linear(g.node("Reshape", {hidden, g.integers({4, 36})}), 36, 3)), 4);
}

// Heads of attention: the batch goes into one axis with the heads and comes out again.
TEST(OpenBatch, ReshapeThatJoinsTheBatchWithHeads) {
  TestGraph g(2);
  const auto x = g.input("x", {1, 3, 5, 4});  // batch, heads, tokens, features
  const auto heads = g.node("Reshape", {x, g.integers({3, 5, 4})});
  const auto scores =
      g.node("Softmax", {g.node("MatMul", {heads, g.node("Transpose", {heads}, {{"perm", Ints{0, 2, 1}}})})},
             {{"axis", int64_t{-1}}});
  const auto read = g.node("MatMul", {scores, heads});
  expect_opened(g.finish(g.node("Reshape", {read, g.integers({1, 3, 5, 4})})));
}

// Tokens first, the batch second.
TEST(OpenBatch, ReshapeWhereTheBatchIsNotFirst) {
  TestGraph g(3);
  const auto x = g.input("x", {1, 5, 6});
  const auto first = g.node("Transpose", {x}, {{"perm", Ints{1, 0, 2}}});
  const auto split = g.node("Reshape", {first, g.integers({5, 1, 2, 3})});
  expect_opened(g.finish(g.node("Transpose", {split}, {{"perm", Ints{1, 0, 2, 3}}})));
}

TEST(OpenBatch, ExpandAndResize) {
  TestGraph g(4);
  const auto x = g.input("x", {2, 1, 3, 3});
  const auto wide = g.node("Expand", {x, g.integers({2, 4, 3, 3})});
  expect_opened(g.finish(g.conv(wide, 4, 2)), 2);
  TestGraph h(5);
  const auto y = h.conv(h.input("x", {1, 2, 3, 3}), 2, 4);
  const Graph resized =
      h.finish(h.node("Resize", {y, "", "", h.integers({1, 4, 6, 6})}, {{"mode", std::string("linear")}}));
  expect_opened(resized);
  // Written with the batch it had, and in a form that every opset has.
  const Graph closed = close_batch(*open_batch(resized), resized);
  EXPECT_EQ(closed.inputs[0].dims->front().size, 1);
  EXPECT_FALSE(closed.nodes.back().has("axes"));
  EXPECT_TRUE(closed.tensor(closed.nodes.back().inputs[3]).equal(at::tensor(Ints{1, 4, 6, 6}, at::kLong)));
}

// An exporter that opened the input and fixed the Reshape.
TEST(OpenBatch, AnOpenInputBeforeAFixedReshape) {
  TestGraph g(6);
  const auto x = g.input("x", {-1, 4, 3});
  expect_opened(g.finish(g.linear(g.node("Reshape", {x, g.integers({1, 12})}), 12, 3)));
}

TEST(OpenBatch, WhatMixesImagesStaysFixed) {
  TestGraph g(7);
  const auto x = g.input("x", {1, 4, 3});
  const auto mean = g.node("ReduceMean", {x, g.integers({0})}, {{"keepdims", int64_t{1}}});
  EXPECT_FALSE(open_batch(g.finish(g.node("Sub", {x, mean}))).has_value());
  // A constant token put before those of the image has a batch of one.
  TestGraph h(8);
  const auto y = h.input("x", {1, 4, 3});
  EXPECT_FALSE(open_batch(h.finish(h.node("Concat", {h.random({1, 1, 3}), y}, {{"axis", int64_t{1}}}))).has_value());
}

// What an open graph does with several images is its meaning.
TEST(OpenBatch, AnOpenGraphThatRunsIsLeftAlone) {
  TestGraph g(9);
  const auto x = g.input("x", {-1, 4});
  const Graph graph = g.finish(g.node("Reshape", {x, g.integers({1, -1})}));
  const std::optional<Graph> opened = open_batch(graph);
  ASSERT_TRUE(opened.has_value());
  EXPECT_EQ(opened->nodes[0].inputs[1], graph.nodes[0].inputs[1]);
}

}  // namespace
}  // namespace pare
