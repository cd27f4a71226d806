// Noise for inputs of integers: within the table that they index, or refused.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/calibrate/noise.h"
#include "pare/error.h"
#include "pare/exec/index_range.h"
#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

Graph embedded(int64_t rows, bool through_others) {
  TestGraph g;
  std::string tokens = g.input("tokens", {-1, 7});
  if (through_others) {
    tokens = g.node("Cast", {tokens}, {{"to", int64_t{7}}});
    tokens = g.node("Squeeze", {g.node("Unsqueeze", {tokens, g.integers({1})}), g.integers({1})});
  }
  const auto words = g.node("Gather", {g.random({rows, 3}), tokens});
  Graph graph = g.finish(g.node("MatMul", {words, g.random({3, 2})}));
  graph.inputs[0].dtype = through_others ? at::kInt : at::kLong;
  return graph;
}

TEST(IntegerInputs, StayWithinTheTableTheyIndex) {
  for (const int64_t rows : {3, 2000})
    for (const bool through_others : {false, true}) {
      const Graph graph = embedded(rows, through_others);
      ASSERT_EQ(index_limit(graph, "tokens"), rows);
      for (const at::Tensor& drawn : {noise_inputs(graph, {.count = 200})[0], random_inputs(graph, 200, 1)[0]}) {
        EXPECT_EQ(drawn.scalar_type(), graph.inputs[0].dtype);
        EXPECT_GE(drawn.min().item<int64_t>(), 0);
        EXPECT_LT(drawn.max().item<int64_t>(), rows);
        EXPECT_GT(drawn.max().item<int64_t>(), rows * 9 / 10 - 1);
      }
    }
}

TEST(IntegerInputs, WithoutATableAreNoNoise) {
  TestGraph g;
  const auto mask = g.node("Cast", {g.input("mask", {-1, 7})}, {{"to", int64_t{11}}});
  Graph graph = g.finish(g.node("MatMul", {mask, g.random({7, 2})}));
  graph.inputs[0].dtype = at::kLong;
  EXPECT_EQ(index_limit(graph, "mask"), std::nullopt);
  try {
    noise_inputs(graph, {.count = 4});
    FAIL() << "made noise for a mask";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_EQ(error.where(), "mask");
  }
}

}  // namespace
}  // namespace pare
