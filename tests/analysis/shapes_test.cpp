// Shapes of networks whose inputs have open extents.
#include "pare/analysis/shapes.h"

#include <gtest/gtest.h>

#include "pare/analysis/channels.h"
#include "pare/analysis/cost.h"
#include "support/builder.h"

namespace pare {
namespace {

// Two convolutions of pictures of any size, the mean of each channel, and a layer.
Graph any_size(const Shape& input = {-1, 3, -1, -1}) {
  TestGraph g(1);
  const std::string hidden = g.relu(g.conv(g.input("x", input), 3, 8));
  const std::string pooled = g.node("GlobalAveragePool", {g.relu(g.conv(hidden, 8, 6))});
  return g.finish(g.linear(g.node("Flatten", {pooled}), 6, 4));
}

TEST(AnalysisShapes, AssumesASizeAndSaysWhich) {
  const Shapes shapes = analysis_shapes(any_size());
  EXPECT_TRUE(shapes.unknown.empty());
  EXPECT_EQ(shapes.assumed, (std::map<std::string, Shape>{{"x", {1, 3, 224, 224}}}));
  EXPECT_TRUE(analysis_shapes(any_size({-1, 3, 32, 32})).assumed.empty());
  const Shapes given = analysis_shapes(any_size(), {.inputs = {{"x", {1, 3, 40, 48}}}});
  EXPECT_TRUE(given.assumed.empty());
  EXPECT_EQ(given.find("x")->dims, (Shape{1, 3, 40, 48}));
  EXPECT_FALSE(infer_shapes(any_size()).unknown.empty()) << "what is rewritten has to hold for any size";
}

TEST(AnalysisShapes, TakesTheSizeThatFits) {
  TestGraph g(2);
  const std::string hidden = g.relu(g.conv(g.input("x", {-1, 3, -1, -1}), 3, 4));
  const Graph graph = g.finish(g.linear(g.node("Flatten", {hidden}), 4 * 64 * 64, 5));
  EXPECT_EQ(analysis_shapes(graph).assumed.at("x"), (Shape{1, 3, 64, 64}));
}

// A state of two layers, batch, width: whose name is not that of the batch of the other input.
TEST(AnalysisShapes, AStateHasTheBatchSecond) {
  TestGraph g(5);
  const std::string x = g.input("x", {-1, 7, 6}), state = g.input("state", {2, -1, 6});
  const Shapes shapes = analysis_shapes(g.finish(g.node("Add", {x, state})));
  EXPECT_EQ(shapes.find("state")->dims, (Shape{2, 1, 6}));
  TestGraph alone(5);
  const Graph texts = alone.finish(alone.node("Relu", {alone.input("text", {1, -1, 6})}));
  EXPECT_EQ(analysis_shapes(texts).find("text")->dims, (Shape{1, 224, 6})) << "a text of any length";
}

TEST(AnalysisShapes, AnExtentWithTheNameOfTheBatchIsOne) {
  TestGraph g(3);
  const std::string x = g.input("x", {-1, 5}), h = g.input("h", {2, -1, 5});
  Graph graph = g.finish(g.node("Add", {x, h}));
  (*graph.inputs[0].dims)[0].symbol = (*graph.inputs[1].dims)[1].symbol = "batch";
  const Shapes shapes = analysis_shapes(graph, {.batch = 3});
  EXPECT_TRUE(shapes.assumed.empty());
  EXPECT_EQ(shapes.find("h")->dims, (Shape{2, 3, 5}));
}

TEST(AnalysisShapes, ChannelsAndCostsOfANetworkOfAnySize) {
  const ChannelMap map = analyze_channels(any_size());
  ASSERT_EQ(map.groups.size(), 3u);
  EXPECT_EQ(map.groups[0].channels.size(), 8u);
  EXPECT_TRUE(map.groups[0].prunable() && map.groups[1].prunable());
  const ModelCost open = cost_of(any_size()), fixed = cost_of(any_size({-1, 3, 224, 224}));
  EXPECT_TRUE(open.complete);
  EXPECT_EQ(open.macs, fixed.macs);
  // What was counted says for which inputs: those of one sample.
  EXPECT_EQ(open.inputs, std::vector<Shape>({{1, 3, 224, 224}}));
  EXPECT_EQ(cost_of(any_size({4, 3, 64, 32})).inputs, std::vector<Shape>({{1, 3, 64, 32}}));
}

}  // namespace
}  // namespace pare
