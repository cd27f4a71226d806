// Answers of variants, computed from where they differ, are those of whole runs.
#include "pare/layerwise/variants.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/analysis/channels.h"
#include "pare/layerwise/sensitivity.h"
#include "pare/passes/remove_channels.h"
#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

// Scores of classes and a map beside them, which the last layer makes from the same trunk.
Graph two_outputs() {
  TestGraph g(9);
  const auto trunk = g.relu(g.batch_norm(g.conv(g.input("x", {-1, 2, 5, 5}), 2, 6), 6));
  const auto inner = g.relu(g.conv(trunk, 6, 5));
  const auto map = g.conv(inner, 5, 3, 1);
  Graph graph = g.finish(g.linear(g.node("Flatten", {g.node("GlobalAveragePool", {trunk})}), 6, 4));
  graph.outputs.push_back({.name = map, .dtype = at::kDouble});
  return graph;
}

TEST(Variants, AnswersAreThoseOfWholeRuns) {
  const Graph graph = two_outputs();
  const ChannelMap map = analyze_channels(graph);
  std::vector<Graph> variants = {graph};
  for (const auto& group : map.groups)
    if (group.reason.empty()) variants.push_back(remove_channels(graph, map, {group.channels[0], group.channels[2]}));
  ASSERT_EQ(variants.size(), 3U);
  const auto inputs = random_inputs(graph, 70, 2);
  const auto found = answer_divergences(graph, variants, samples_of(inputs), unobserved(), "judging");
  const auto original = forward(graph, inputs).outputs;
  ASSERT_EQ(original.size(), 2U);
  EXPECT_EQ(found[0], 0);
  for (size_t v = 1; v < variants.size(); ++v) {
    const auto own = forward(variants[v], inputs).outputs;
    const double scores = divergence(original[0], own[0]) / 70;
    EXPECT_GE(found[v], scores / 2 - 1e-9);  // the mean of two answers
    if (v == 2) EXPECT_EQ(scores, 0);        // the inner layer makes the map alone: only all answers show it
    EXPECT_GT(found[v], 1e-4);
  }
}

TEST(Variants, OfClassScoresTheDivergenceIsThatOfScores) {
  TestGraph g(10);
  const auto hidden = g.relu(g.linear(g.input("x", {-1, 4}), 4, 6));
  const Graph graph = g.finish(g.node("Softmax", {g.linear(hidden, 6, 3)}));
  const ChannelMap map = analyze_channels(graph);
  const Graph variant = remove_channels(graph, map, {map.groups[0].channels[1]});
  const auto inputs = random_inputs(graph, 9, 4);
  const at::Tensor p = forward(graph, inputs).outputs[0], q = forward(variant, inputs).outputs[0];
  const double expected = (p * (p / q).log()).sum().item<double>() / 9;
  EXPECT_NEAR(answer_divergences(graph, {variant}, samples_of(inputs), unobserved(), "judging")[0], expected, 1e-9);
}

// A detector's map of probabilities is judged as its users see it, after the last sigmoid.
TEST(Variants, OfMapsTheDivergenceIsThatOfOutputs) {
  TestGraph g(11);
  const auto hidden = g.relu(g.conv(g.input("x", {-1, 2, 5, 5}), 2, 6));
  const Graph graph = g.finish(g.node("Sigmoid", {g.conv(hidden, 6, 1, 1)}));
  const ChannelMap map = analyze_channels(graph);
  const Graph variant = remove_channels(graph, map, {map.groups[0].channels[1]});
  const auto inputs = random_inputs(graph, 9, 4);
  const at::Tensor y = forward(graph, inputs).outputs[0], other = forward(variant, inputs).outputs[0];
  double expected = 0;
  for (int64_t i = 0; i < 9; ++i)
    expected += ((y[i] - other[i]).square().sum() / y[i].square().sum()).item<double>() / 9;
  EXPECT_GT(expected, 1e-6);
  EXPECT_NEAR(answer_divergences(graph, {variant}, samples_of(inputs), unobserved(), "judging")[0], expected, 1e-9);
}

}  // namespace
}  // namespace pare
