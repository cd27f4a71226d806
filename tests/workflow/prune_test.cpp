// Pruning from end to end: several steps end where one does, and what is refused.
#include "pare/workflow/prune.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "pare/error.h"
#include "pare/zoo/zoo.h"
#include "support/builder.h"

namespace pare {
namespace {

std::vector<int64_t> widths(const Graph& graph, PruneJob options, int64_t steps) {
  options.steps = steps;
  std::vector<int64_t> kept;
  for (const auto& group : prune(graph, options).groups) kept.push_back(group.kept);
  return kept;
}

PruneJob plain() {
  PruneJob options;
  options.compensate = "none";
  options.inner_only = true;
  return options;
}

TEST(Prune, StepsEndWithTheWidthsOfOne) {
  const Graph graph = build("resnet20");
  PruneJob channels = plain();
  channels.channels = 0.5;
  const auto once = widths(graph, channels, 1);
  EXPECT_THAT(once, testing::Contains(8));
  EXPECT_EQ(widths(graph, channels, 4), once);

  PruneJob layers = channels;
  layers.channels = 0.2;
  layers.layers = {"layer3.*", "layer2.*=0.5"};
  layers.round_to = 1;
  EXPECT_EQ(widths(graph, layers, 3), widths(graph, layers, 1));

  for (const auto budget : {&PruneJob::params, &PruneJob::macs}) {
    PruneJob cost = plain();
    cost.*budget = 0.3;
    EXPECT_EQ(widths(graph, cost, 3), widths(graph, cost, 1));
  }
}

TEST(Prune, GlobalStepsRemoveAsManyChannels) {
  const Graph graph = build("resnet20");
  PruneJob options = plain();
  options.channels = 0.5;
  options.scope = PruneScope::global;
  options.round_to = 1;
  const auto left = [&](int64_t steps) {
    const auto kept = widths(graph, options, steps);
    return std::accumulate(kept.begin(), kept.end(), int64_t{0});
  };
  EXPECT_NEAR(static_cast<double>(left(3)), static_cast<double>(left(1)), 4);
}

// A layer whose channels are copies of two: selection over the whole network takes them, not a part of every layer.
TEST(Prune, GlobalSubsetTakesWhatCanBeReconstructed) {
  Graph graph = build("lenet-300-100");
  for (const auto& node : graph.nodes) {
    if (node.op != "Gemm" || graph.tensor(node.inputs[1]).size(0) != 100) continue;
    for (const size_t i : {size_t{1}, size_t{2}}) {
      const at::Tensor two = graph.tensor(node.inputs[i]).narrow(0, 0, 2);
      graph.tensors[node.inputs[i]] = at::cat(std::vector<at::Tensor>(50, two));
    }
  }
  PruneJob options = plain();
  options.channels = 0.2;
  options.round_to = 1;
  options.criterion = "subset";
  options.scope = PruneScope::global;
  options.images = MadeImages::white;
  options.samples = 1000;  // fewer leave channels of the first layer dependent too
  const auto kept = widths(graph, options, 1);
  EXPECT_EQ(kept[0], 300);
  EXPECT_EQ(kept[1], 20);  // all of the 80 that go
}

TEST(Prune, NothingInAllStepsIsAnError) {
  PruneJob options = plain();
  options.channels = 0.5;
  options.round_to = 4096;
  EXPECT_THROW(widths(build("lenet-5"), options, 3), Error);
}

TEST(Prune, EmptyChannelsGoInOneStep) {
  Graph graph = build("lenet-300-100");
  const Node* second = nullptr;
  for (const auto& node : graph.nodes)
    if (node.op == "Gemm" && graph.tensor(node.inputs[1]).size(0) == 100) second = &node;
  ASSERT_NE(second, nullptr);
  at::Tensor weight = graph.tensor(second->inputs[1]).clone();
  weight.narrow(1, 3, 2).zero_();
  graph.tensors[second->inputs[1]] = weight;
  PruneJob options;
  options.empty = true;
  EXPECT_EQ(widths(graph, options, 2).front(), 298);
}

// Widths can be allocated by obs alone: asked for, they say which criterion `auto` is, whatever the compensation.
TEST(Prune, AllocatedWidthsAreThoseOfObs) {
  const Graph graph;
  for (const char* method : {"none", "most-sim", "synthetic"}) {
    PruneJob options;
    options.channels = 0.5;
    options.scope = PruneScope::allocate;
    options.compensate = method;
    EXPECT_EQ(options.resolved(graph).criterion, "obs") << method;
  }
  PruneJob other;
  other.compensate = "none";
  EXPECT_EQ(other.resolved(graph).criterion, "l1");
  other.scope = PruneScope::allocate;
  other.criterion = "l2";
  EXPECT_THROW(other.resolved(graph), Error);
}

// Images can be made for networks that take pictures; what is chosen by weights is made up for by weights.
TEST(Prune, WithoutDataImagesAreMadeWherePicturesAreTaken) {
  TestGraph flat(1), pictures(1);
  const Graph vectors = flat.finish(flat.linear(flat.input("x", {-1, 8}), 8, 3));
  const Graph network = pictures.finish(pictures.conv(pictures.input("x", {-1, 3, 8, 8}), 3, 4));
  PruneJob options;
  options.macs = 0.3;
  EXPECT_EQ(options.resolved(vectors).compensate, "most-sim");
  EXPECT_EQ(options.resolved(network).compensate, "synthetic");
  EXPECT_EQ(options.resolved(network).criterion, "obs");
  options.criterion = "l1";
  EXPECT_EQ(options.resolved(network).compensate, "most-sim");
}

TEST(Prune, ANegativeDropIsRefused) {
  PruneJob options = plain();
  options.channels = 0.5;
  options.max_drop = -0.5;
  try {
    prune(build("lenet-300-100"), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("`max-drop`: expected 0 or more"));
  }
}

}  // namespace
}  // namespace pare
