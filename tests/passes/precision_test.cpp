// Half precision widened and narrowed again.
#include "pare/passes/precision.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/error.h"
#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

Graph half_net() {
  TestGraph g(1);
  const auto hidden = g.relu(g.batch_norm(g.conv(g.input("x", {-1, 2, 5, 5}), 2, 4), 4));
  return cast(g.finish(g.linear(g.node("Flatten", {hidden}), 100, 3)), at::kHalf);
}

TEST(Precision, WidenedRunsAndIsTheSameNumbers) {
  const Graph half = half_net();
  const Graph wide = widened(half);
  EXPECT_FALSE(has_half_precision(wide));
  const auto inputs = random_inputs(wide, 3, 2);
  const auto exact = random_inputs(cast(wide, at::kDouble), 3, 2);
  const at::Tensor expected = forward(cast(half, at::kDouble), exact).outputs[0];
  EXPECT_LE((forward(wide, inputs).outputs[0] - expected).abs().max().item<double>(), 1e-4);
  const Graph back = narrowed_like(wide, half);
  for (const auto& [name, tensor] : half.tensors) EXPECT_TRUE(back.tensor(name).equal(tensor)) << name;
  EXPECT_EQ(back.inputs[0].dtype, at::kHalf);
  EXPECT_EQ(back.outputs[0].dtype, at::kHalf);
}

// Half of the network is in float, with conversions between: they are conversions again, and new tensors fit in.
TEST(Precision, MixedNetworksKeepTheirTypes) {
  TestGraph g(2);
  const auto x = g.input("x", {-1, 4});
  const auto hidden = g.node("Cast", {g.relu(g.linear(x, 4, 6))}, {{"to", int64_t{10}}});
  const auto out = g.node("Cast", {g.relu(g.linear(hidden, 6, 5))}, {{"to", int64_t{1}}});
  Graph graph = cast(g.finish(out), at::kFloat);
  for (const char* name : {"t2", "t3"}) graph.tensors[name] = graph.tensors[name].to(at::kHalf);
  Graph wide = widened(graph);
  EXPECT_FALSE(has_half_precision(wide));
  wide.tensors["fresh"] = wide.tensors["t2"];  // a method gave both layers new weights
  wide.tensors["new"] = wide.tensors["t0"];
  wide.nodes[3].inputs[1] = "fresh";
  wide.nodes[0].inputs[1] = "new";
  const Graph back = narrowed_like(remove_unused(wide), graph);
  EXPECT_EQ(back.tensor("fresh").scalar_type(), at::kHalf);
  EXPECT_EQ(back.tensor("new").scalar_type(), at::kFloat);
  EXPECT_EQ(back.tensor("t3").scalar_type(), at::kHalf);
  EXPECT_EQ(back.nodes[2].integer("to", 0), 10);
  EXPECT_EQ(back.nodes[5].integer("to", 0), 1);
  EXPECT_EQ(back.inputs[0].dtype, at::kFloat);
}

// A mask of another type on the way decides nothing: what is new beside half precision is half precision.
TEST(Precision, MasksDecideNoType) {
  TestGraph g(3);
  const auto x = g.input("x", {-1, 4});
  const auto mask = g.node("Cast", {x}, {{"to", int64_t{9}}});
  const auto chosen = g.node("Where", {mask, x, g.random({4})});
  const Graph half = cast(g.finish(g.node("MatMul", {chosen, g.random({4, 3})})), at::kHalf);
  Graph wide = widened(half);
  const std::string made = wide.nodes.back().outputs[0];
  wide.nodes.back().outputs[0] = "product";
  wide.tensors["new"] = at::ones({3});
  wide.nodes.push_back({.name = "bias", .op = "Add", .inputs = {"product", "new"}, .outputs = {made}});
  EXPECT_EQ(narrowed_like(wide, half).tensor("new").scalar_type(), at::kHalf);
}

TEST(Precision, NumbersThatDoNotFitAreRefused) {
  const Graph half = half_net();
  Graph wide = widened(half);
  wide.tensors["t0"] = wide.tensors["t0"] * 1e6;
  EXPECT_THROW(narrowed_like(wide, half), Error);
}

TEST(Precision, OtherGraphsAreLeftAlone) {
  const Graph single = cast(half_net(), at::kFloat);
  EXPECT_TRUE(widened(single).tensor("t0").is_same(single.tensor("t0")));
}

}  // namespace
}  // namespace pare
