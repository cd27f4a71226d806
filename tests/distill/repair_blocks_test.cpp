// Repair block by block: which blocks there are, what they learn, and what is left alone.
#include "pare/distill/repair_blocks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "pare/analysis/channels.h"
#include "pare/passes/remove_channels.h"
#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

constexpr int64_t kAll = 80, kHeld = 12;  // 0.15 of them

// Two residual blocks after a first layer; the names of the values that everything passes through are kept.
struct Network {
  Graph graph;
  std::string first, sum, second, scores;
};

Network network() {
  TestGraph g(5);
  Network made;
  made.first = g.relu(g.conv(g.input("x", {-1, 3, 6, 6}), 3, 8));
  made.sum = g.node("Add", {g.conv(g.relu(g.conv(made.first, 8, 12)), 12, 8), made.first});
  made.second = g.node("Add", {g.conv(g.relu(g.conv(made.sum, 8, 12)), 12, 8), made.sum});
  made.scores = g.linear(g.node("Flatten", {g.node("GlobalAveragePool", {made.second})}), 8, 4);
  made.graph = g.finish(made.scores);
  return made;
}

// Without some channels inside the blocks that are named by their numbers.
Graph without(const Network& whole, const std::vector<size_t>& groups) {
  const ChannelMap map = analyze_channels(whole.graph);
  std::set<ChannelId> removed;
  size_t inner = 0;
  for (const auto& group : map.groups) {
    if (group.channels.size() != 12) continue;
    if (std::ranges::count(groups, inner++) > 0) removed.insert(group.channels.begin(), group.channels.begin() + 4);
  }
  EXPECT_EQ(removed.size(), 4 * groups.size());
  return remove_channels(whole.graph, map, removed);
}

Samples pictures() {
  at::manual_seed(7);
  return samples_of({at::randn({kAll, 3, 6, 6}, at::kDouble)});
}

at::Tensor value_of(const Graph& graph, const std::string& value, const at::Tensor& inputs) {
  RunOptions run;
  run.taps = {value};
  const std::vector<at::Tensor> all = {inputs};
  return forward(graph, all, run).tapped.at(value);
}

double relative_distance(const Graph& original, const Graph& cut, const std::string& value) {
  const at::Tensor held = pictures().inputs(kAll - kHeld, kAll)[0];
  const at::Tensor target = value_of(original, value, held);
  return ((target - value_of(cut, value, held)).square().sum() / target.square().sum()).item<double>();
}

TEST(RepairBlocks, LieBetweenValuesThatEverythingPassesThrough) {
  const Network whole = network();
  const auto of = [&](const std::vector<size_t>& groups) {
    std::vector<std::pair<std::string, std::string>> found;
    for (const auto& block : repairable_blocks(whole.graph, without(whole, groups)))
      found.emplace_back(block.from, block.to);
    return found;
  };
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(of({0}), (Pairs{{whole.first, whole.sum}}));
  EXPECT_EQ(of({1}), (Pairs{{whole.sum, whole.second}}));
  EXPECT_EQ(of({0, 1}), (Pairs{{whole.first, whole.sum}, {whole.sum, whole.second}}));
  EXPECT_TRUE(repairable_blocks(whole.graph, whole.graph).empty());
}

TEST(RepairBlocks, LearnToMakeWhatTheOriginalMakes) {
  const Network whole = network();
  const Graph cut = without(whole, {0, 1});
  const RepairedBlocks repaired =
      repair_blocks(whole.graph, cut, pictures(), {.steps = 150, .rate = 1e-2}, unobserved());
  ASSERT_EQ(repaired.blocks.size(), 2U);
  for (const auto& block : repaired.blocks) {
    EXPECT_TRUE(block.better()) << block.to;
    EXPECT_EQ(block.steps, 150);
    // What is said of a block is what whole runs show of its value.
    EXPECT_NEAR(block.after, relative_distance(whole.graph, repaired.graph, block.to), 1e-9) << block.to;
    EXPECT_LT(block.after, 0.6 * relative_distance(whole.graph, cut, block.to)) << block.to;
  }
  EXPECT_NEAR(repaired.blocks[0].before, relative_distance(whole.graph, cut, whole.sum), 1e-9);
  // The second block is given what the first makes by now.
  EXPECT_LT(repaired.blocks[1].before, relative_distance(whole.graph, cut, whole.second));
}

TEST(RepairBlocks, LeaveWhatIsOutsideAsItWas) {
  const Network whole = network();
  const Graph cut = without(whole, {1});
  const Graph repaired = repair_blocks(whole.graph, cut, pictures(), {.steps = 20}, unobserved()).graph;
  int changed = 0;
  for (const auto& [name, tensor] : cut.tensors) {
    if (tensor.equal(repaired.tensors.at(name))) continue;
    ++changed;
    // Only inside the second block: two layers with their biases.
    bool inside = false;
    for (size_t n = 6; n < 9; ++n) inside = inside || std::ranges::count(cut.nodes[n].inputs, name) > 0;
    EXPECT_TRUE(inside) << name;
  }
  EXPECT_EQ(changed, 4);
}

TEST(RepairBlocks, StayAsTheyWereWhereLearningDoesHarm) {
  const Network whole = network();
  const Graph cut = without(whole, {0, 1});
  const RepairedBlocks repaired = repair_blocks(whole.graph, cut, pictures(), {.steps = 10, .rate = 50}, unobserved());
  ASSERT_EQ(repaired.blocks.size(), 2U);
  for (const auto& block : repaired.blocks) {
    EXPECT_FALSE(block.better());
    EXPECT_NEAR(block.before, relative_distance(whole.graph, cut, block.to), 1e-9);
  }
  for (const auto& [name, tensor] : cut.tensors) EXPECT_TRUE(tensor.equal(repaired.graph.tensors.at(name))) << name;
}

// A weight that two blocks read can't be what either of them would have it.
TEST(RepairBlocks, LeaveSharedWeightsAlone) {
  TestGraph g(6);
  const auto weight = g.random({8, 8, 1, 1});
  const auto layer = [&](const std::string& x) { return g.node("Conv", {x, weight}); };
  const auto first = g.relu(layer(g.relu(g.conv(g.input("x", {-1, 3, 6, 6}), 3, 8))));
  const Graph original = g.finish(g.relu(layer(first)));
  Graph cut = original;
  cut.tensors[weight] = cut.tensors[weight] * 0.9;
  const Graph repaired = repair_blocks(original, cut, pictures(), {.steps = 20}, unobserved()).graph;
  EXPECT_TRUE(repaired.tensors.at(weight).equal(cut.tensors.at(weight)));
}

TEST(RepairBlocks, KeepToTheirTime) {
  const Network whole = network();
  const RepairedBlocks repaired =
      repair_blocks(whole.graph, without(whole, {0, 1}), pictures(), {.minutes = 0.01}, unobserved());
  ASSERT_EQ(repaired.blocks.size(), 2U);
  for (const auto& block : repaired.blocks) EXPECT_GT(block.steps, 0);
  const auto hurried = repair_blocks(whole.graph, without(whole, {0}), pictures(), {.minutes = 1e-9}, unobserved());
  for (const auto& block : hurried.blocks) EXPECT_LE(block.steps, 1);
}

}  // namespace
}  // namespace pare
