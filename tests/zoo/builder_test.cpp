#include "pare/zoo/builder.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pare/error.h"

namespace pare {
namespace {

using testing::ElementsAre;

TEST(GraphBuilder, FollowsShapes) {
  GraphBuilder b("net", {3, 33, 20});
  BuiltValue x = b.conv(b.input(), "conv", 8, 7, {.stride = 2, .pad = 3, .bias = true});
  EXPECT_THAT(x.shape, ElementsAre(8, 17, 10));
  EXPECT_THAT(b.subsample(x, "slice", 2).shape, ElementsAre(8, 9, 5));
  EXPECT_THAT(b.pad_channels(x, "pad", 2, 3).shape, ElementsAre(13, 17, 10));
  x = b.average_pool(x, "pool", {.kernel = 3, .stride = 2, .pad = 1});
  EXPECT_THAT(x.shape, ElementsAre(8, 9, 5));
  EXPECT_THAT(b.global_average_pool(x, "gap").shape, ElementsAre(8, 1, 1));
  x = b.flatten(x);
  EXPECT_THAT(x.shape, ElementsAre(360));
  x = b.linear(x, "fc", 4);
  const Graph graph = std::move(b).finish(x);
  EXPECT_NO_THROW(verify(graph));
  EXPECT_EQ(graph.tensor("fc.weight").sizes(), at::IntArrayRef({4, 360}));
  EXPECT_EQ(graph.nodes.back().integer("transB", 0), 1);
  EXPECT_THAT(graph.nodes.back().outputs, ElementsAre("logits"));
}

TEST(GraphBuilder, WritesTheFormOfOpset21) {
  GraphBuilder b("net", {4, 8, 8});
  BuiltValue x = b.batch_norm(b.conv(b.input(), "conv", 4, 3, {.pad = 1, .groups = 4}), "bn");
  x = b.add(b.dropout(x, "drop", 0.5), b.dropout(x, "none", 0.0), "add");
  const Graph graph = std::move(b).finish(x);
  verify(graph);
  ASSERT_EQ(graph.nodes.size(), 4U);
  EXPECT_EQ(graph.nodes[0].integer("group", 1), 4);
  EXPECT_EQ(graph.nodes[0].integers("pads"), (std::vector<int64_t>{1, 1, 1, 1}));
  EXPECT_THAT(graph.nodes[1].inputs, ElementsAre("conv", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"));
  EXPECT_DOUBLE_EQ(graph.nodes[1].real("epsilon", 0), 1e-5);
  EXPECT_DOUBLE_EQ(graph.nodes[1].real("momentum", 0), 0.9);
  EXPECT_FLOAT_EQ(graph.tensor(graph.nodes[2].inputs.at(1)).item<float>(), 0.5F);  // the ratio is an input
  EXPECT_THAT(graph.nodes[3].inputs, ElementsAre("drop", "bn"));
}

TEST(GraphBuilder, RefusesWhatDoesNotFit) {
  GraphBuilder b("net", {4, 8, 8});
  EXPECT_THROW(b.conv(b.input(), "a", 4, 9), Error);
  EXPECT_THROW(b.conv(b.input(), "b", 4, 3, {.groups = 3}), Error);
  EXPECT_THROW(b.linear(b.input(), "c", 4), Error);
  EXPECT_THROW(b.max_pool(b.flatten(b.input()), "d"), Error);
  EXPECT_THROW(b.add(b.input(), b.conv(b.input(), "f", 2, 1), "e"), Error);
  EXPECT_THROW(b.activation(b.input(), "g", "swish"), Error);
}

}  // namespace
}  // namespace pare
