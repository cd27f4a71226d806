// A layer's output equals its weight times its rows, for every kind of layer.
#include "pare/layerwise/linear_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

using Ints = std::vector<int64_t>;

// Checks the last layer of the graph, whose only input is x, at all places and at some.
void expect_rows(const Graph& graph) {
  const at::NoGradGuard no_grad;
  const size_t last = graph.nodes.size() - 1;
  const auto layer = layer_of(graph, last);
  ASSERT_TRUE(layer);
  ASSERT_TRUE(has_rows(graph, *layer));
  const auto inputs = random_inputs(graph, 3, 5);
  const at::Tensor y = forward(graph, inputs).outputs[0];
  const at::Tensor W = weight_by_group(graph, *layer);
  const Node& node = graph.nodes[last];
  const at::Tensor bias = node.has_input(2) ? graph.tensor(node.inputs[2]).to(at::kDouble)
                                            : at::zeros({W.size(0) * W.size(1)}, at::kDouble);
  for (const int64_t most : {int64_t{1} << 30, int64_t{5}}) {
    const at::Tensor places = sampled_places(places_of(*layer, y), most, 0, 3, 1);
    const at::Tensor h = input_rows(graph, *layer, inputs[0], places).to(at::kDouble);
    const at::Tensor expected = output_rows(*layer, y, places).to(at::kDouble);
    const at::Tensor own = at::bmm(h, W.flatten(2).transpose(1, 2)) + bias.reshape({W.size(0), 1, W.size(1)});
    ASSERT_EQ(own.sizes(), expected.sizes());
    EXPECT_LT((own - expected).abs().max().item<double>(), 1e-4);
  }
  Graph again = graph;
  store_weight(again, *layer, W);
  EXPECT_TRUE(at::equal(again.tensor(node.inputs[1]), graph.tensor(node.inputs[1])));
}

Graph conv(const Ints& input, const Ints& weight, std::map<std::string, Attribute> attributes,
           const char* op = "Conv") {
  TestGraph g(1);
  const auto x = g.input("x", input);
  return g.finish(g.node(op, {x, g.random(weight)}, std::move(attributes)));
}

TEST(LinearRows, PlainConvolution) { expect_rows(conv({-1, 3, 9, 7}, {4, 3, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}})); }
TEST(LinearRows, StridedDilatedUnevenlyPadded) {
  expect_rows(conv({-1, 3, 11, 9}, {4, 3, 3, 2},
                   {{"pads", Ints{1, 0, 2, 1}}, {"strides", Ints{2, 3}}, {"dilations", Ints{2, 1}}}));
}
TEST(LinearRows, SamePadding) {
  expect_rows(conv({-1, 3, 8, 8}, {4, 3, 3, 3}, {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2, 2}}}));
}
TEST(LinearRows, Grouped) { expect_rows(conv({-1, 6, 5, 5}, {4, 3, 3, 3}, {{"group", int64_t{2}}})); }
TEST(LinearRows, Depthwise) { expect_rows(conv({-1, 4, 5, 5}, {8, 1, 3, 3}, {{"group", int64_t{4}}})); }
TEST(LinearRows, OneDimension) { expect_rows(conv({-1, 3, 12}, {4, 3, 3}, {{"strides", Ints{2}}})); }
TEST(LinearRows, ThreeDimensions) {
  expect_rows(conv({-1, 2, 5, 4, 6}, {3, 2, 2, 3, 3}, {{"pads", Ints{0, 1, 1, 1, 1, 1}}}));
}
TEST(LinearRows, Transposed) {
  expect_rows(conv({-1, 3, 4, 5}, {3, 2, 3, 3},
                   {{"strides", Ints{2, 2}}, {"pads", Ints{1, 0, 0, 1}}, {"output_padding", Ints{1, 0}}},
                   "ConvTranspose"));
}
TEST(LinearRows, TransposedDilatedGrouped) {
  expect_rows(conv({-1, 4, 4, 5}, {4, 3, 2, 3}, {{"dilations", Ints{2, 1}}, {"group", int64_t{2}}}, "ConvTranspose"));
}
TEST(LinearRows, MatrixProduct) {
  TestGraph g(1);
  const auto x = g.input("x", {-1, 7, 6});
  expect_rows(g.finish(g.node("MatMul", {x, g.random({6, 4})})));
}
TEST(LinearRows, Gemm) {
  for (const int64_t transposed : {0, 1}) {
    TestGraph g(1);
    const auto x = g.input("x", {-1, 6});
    expect_rows(g.finish(g.node("Gemm", {x, g.random(transposed != 0 ? Ints{4, 6} : Ints{6, 4}), g.random({4})},
                                {{"transB", transposed}})));
  }
}

TEST(LinearRows, PlacesDependOnTheImageAloneAndAreSpread) {
  const at::Tensor whole = sampled_places(1000, 10, 0, 8, 3);
  EXPECT_TRUE(at::equal(whole.slice(0, 3, 5), sampled_places(1000, 10, 3, 2, 3)));
  EXPECT_FALSE(at::equal(whole[0], whole[1]));
  for (int64_t p = 0; p < 10; ++p) {
    EXPECT_GE(whole.select(1, p).min().item<int64_t>(), 100 * p);
    EXPECT_LT(whole.select(1, p).max().item<int64_t>(), 100 * (p + 1));
  }
}

}  // namespace
}  // namespace pare
