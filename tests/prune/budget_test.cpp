// Budgets: counts, rounding, floors, globs, and what is refused.
#include "pare/prune/budget.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "pare/analysis/cost.h"
#include "pare/error.h"
#include "pare/passes/remove_channels.h"
#include "pare/prune/criteria.h"
#include "pare/zoo/zoo.h"
#include "support/builder.h"

namespace pare {
namespace {

Selection select(const Graph& graph, const BudgetOptions& options) {
  const ChannelMap map = analyze_channels(graph);
  return select_channels(graph, map, options, [&](const ChannelGroup& group, std::string& reason) {
    return importance(graph, map, group, {.criterion = "l1"}, reason);
  });
}

const GroupPlan& plan(const Selection& selection, const std::string& name) {
  for (const auto& group : selection.groups)
    if (group.name == name) return group;
  throw Error(ErrorKind::failed, name, "no such group");
}

std::string refusal(const Graph& graph, const BudgetOptions& options) {
  try {
    select(graph, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "";
}

TEST(Budget, CountsAreThePapers) {
  EXPECT_EQ(kept_count(300, 0.7, 1), 90);  // 300·(1 − 0.7) is 90.00000000000001 or 89.99999999999999
  EXPECT_EQ(kept_count(100, 0.9, 1), 10);
  EXPECT_EQ(kept_count(16, 0.3, 1), 11);
  EXPECT_EQ(kept_count(5, 0.99, 1), 1);
  EXPECT_EQ(kept_count(64, 0.3, 8), 48);
  EXPECT_EQ(kept_count(64, 0.99, 8), 8);
  EXPECT_EQ(kept_count(6, 0.5, 8), 6);
  EXPECT_EQ(kept_count(20, 0.1, 8), 16);
}

TEST(Budget, UniformTakesTheLeastImportant) {
  TestGraph g(1);
  const auto x = g.input("x", {-1, 4});
  const Graph graph = g.finish(g.linear(g.relu(g.linear(x, 4, 10)), 10, 3));
  const Selection selection = select(graph, {.ratio = 0.3, .round_to = 1});
  EXPECT_EQ(selection.groups[0].kept, 7);
  EXPECT_EQ(selection.removed().size(), 3U);
  const ChannelMap map = analyze_channels(graph);
  std::string reason;
  const at::Tensor scores = importance(graph, map, map.groups[0], {}, reason);
  double most_removed = 0;
  double least_kept = 1e9;
  for (size_t i = 0; i < 10; ++i) {
    const double score = scores[static_cast<int64_t>(i)].item<double>();
    if (selection.removed().contains(map.groups[0].channels[i]))
      most_removed = std::max(most_removed, score);
    else
      least_kept = std::min(least_kept, score);
  }
  EXPECT_LT(most_removed, least_kept);
  EXPECT_EQ(selection.groups[1].reason, "it is the graph output 'Gemm2_0'");
}

TEST(Budget, ParametersAndMacsAreReached) {
  const Graph graph = build("resnet20");
  const ChannelMap map = analyze_channels(graph);
  const auto cost = [&](const Selection& s) { return cost_of(remove_channels(graph, map, s.removed())); };
  const ModelCost before = cost_of(graph);
  const ModelCost params = cost(select(graph, {.budget = Budget::params, .ratio = 0.4, .round_to = 1}));
  EXPECT_NEAR(1 - static_cast<double>(params.parameters) / static_cast<double>(before.parameters), 0.42, 0.021);
  const ModelCost macs =
      cost(select(graph, {.budget = Budget::macs, .scope = Scope::global, .ratio = 0.3, .round_to = 1}));
  EXPECT_NEAR(1 - static_cast<double>(macs.macs) / static_cast<double>(before.macs), 0.32, 0.021);
  EXPECT_THAT(refusal(graph, {.budget = Budget::params, .ratio = 0.999, .inner_only = true}),
              testing::HasSubstr("at most"));
}

// Many groups are of one width, and all of them lose eight channels at one ratio: no more of them go than are needed.
TEST(Budget, RoundedWidthsDoNotOvershoot) {
  const Graph graph = build("resnet20");
  const ChannelMap map = analyze_channels(graph);
  const auto macs = [](const Graph& of_graph) { return static_cast<double>(cost_of(of_graph).macs); };
  for (const double ratio : {0.1, 0.2, 0.3, 0.4}) {
    const Selection selection = select(graph, {.budget = Budget::macs, .ratio = ratio, .inner_only = true});
    const double saved = 1 - macs(remove_channels(graph, map, selection.removed())) / macs(graph);
    EXPECT_GE(saved, ratio);
    EXPECT_LT(saved, ratio + 0.06) << ratio;
    for (const auto& group : selection.groups) EXPECT_TRUE(group.removed.empty() || group.kept % 8 == 0) << group.name;
  }
}

TEST(Budget, BytesAreReached) {
  const Graph graph = build("resnet20");
  const ChannelMap map = analyze_channels(graph);
  const auto bytes = [](const Graph& of_graph) { return static_cast<double>(cost_of(of_graph).bytes); };
  const Selection selection = select(graph, {.budget = Budget::bytes, .ratio = 0.4, .round_to = 1});
  const double saved = 1 - bytes(remove_channels(graph, map, selection.removed())) / bytes(graph);
  EXPECT_GE(saved, 0.4);
  EXPECT_LT(saved, 0.44);
}

TEST(Budget, WidthsAreThoseThatAreGiven) {
  const Graph graph = build("resnet20");
  const auto given = [&](std::map<std::string, int64_t> widths) {
    return BudgetOptions{.budget = Budget::widths, .widths = std::move(widths)};
  };
  const Selection selection =
      select(graph, given({{"layer1.0.conv1", 5}, {"layer3.1.conv1", 63}, {"layer2.0.conv1", 32}}));
  EXPECT_EQ(plan(selection, "layer1.0.conv1").kept, 5);
  EXPECT_EQ(plan(selection, "layer3.1.conv1").kept, 63);
  EXPECT_EQ(plan(selection, "layer2.0.conv1").kept, 32);
  EXPECT_EQ(selection.removed().size(), 11U + 1U);
  EXPECT_EQ(plan(selection, "layer3.2.conv1").reason, "not named by `widths`");
  EXPECT_THAT(refusal(graph, given({{"layer9", 5}})), testing::HasSubstr("no group 'layer9'"));
  for (const int64_t kept : {int64_t{0}, int64_t{-3}, int64_t{17}})
    EXPECT_THAT(refusal(graph, given({{"layer1.0.conv1", kept}})), testing::HasSubstr("expected 1 to 16")) << kept;
}

TEST(Budget, GlobalKeepsAFloor) {
  TestGraph g(2);
  const auto x = g.input("x", {-1, 4});
  auto a = g.linear(x, 4, 20);
  Graph graph = g.finish(g.linear(g.relu(g.linear(g.relu(a), 20, 20)), 20, 3));
  // All but one filter of the first layer are next to nothing.
  at::Tensor w = graph.tensors["t0"].clone();
  w.narrow(0, 1, 19).mul_(1e-6);
  graph.tensors["t0"] = w;
  graph.tensors["t1"] = graph.tensors["t1"] * 1e-6;
  const Selection selection = select(graph, {.scope = Scope::global, .ratio = 0.5, .round_to = 1, .floor = 0.25});
  EXPECT_EQ(selection.groups[0].kept, 5);
  EXPECT_GT(selection.groups[1].kept, 10);
}

// A floor is no less than it says, and where floors leave too little to remove nothing less is removed in silence.
TEST(Budget, FloorsAreKeptOrTheBudgetIsRefused) {
  const Graph graph = build("lenet-5");  // groups of 20, 50 and 500 channels
  const Selection selection = select(graph, {.scope = Scope::global, .ratio = 0.4, .round_to = 1, .floor = 0.59});
  for (const auto& group : selection.groups)
    EXPECT_GE(static_cast<double>(group.kept), 0.59 * static_cast<double>(group.total)) << group.name;
  EXPECT_THAT(refusal(graph, {.scope = Scope::global, .ratio = 0.5, .round_to = 1, .floor = 0.8}),
              testing::AllOf(testing::HasSubstr("`channels`"), testing::HasSubstr("`floor` 0.8")));
}

int64_t removed_in(const Selection& selection, const std::string& name) {
  return static_cast<int64_t>(plan(selection, name).removed.size());
}

// All channels equally important: every group loses its share and no channel more than asked for goes.
TEST(Budget, GlobalSpreadsTiesOverTheGroups) {
  const Graph graph = build("lenet-300-100");
  const ChannelMap map = analyze_channels(graph);
  const Importance equal = [](const ChannelGroup& group, std::string&) {
    return at::ones({static_cast<int64_t>(group.channels.size())}, at::kDouble);
  };
  const auto chosen = [&](double ratio) {
    return select_channels(graph, map, {.scope = Scope::global, .ratio = ratio, .round_to = 1}, equal);
  };
  for (const double ratio : {0.01, 0.3, 0.5}) {
    const Selection selection = chosen(ratio);
    EXPECT_EQ(selection.removed().size(), static_cast<size_t>(std::floor(400 * ratio + 1e-9))) << ratio;
    EXPECT_NEAR(static_cast<double>(removed_in(selection, "ip1")), 300 * ratio, 1) << ratio;
    EXPECT_EQ(chosen(ratio).removed(), selection.removed());
  }
}

TEST(Budget, GlobalTakesTheCountAskedForWithTiesAndFloors) {
  const Graph graph = build("resnet20");
  const ChannelMap map = analyze_channels(graph);
  int64_t channels = 0;
  for (const auto& group : map.groups)
    if (group.prunable() && !group.consumers.empty()) channels += static_cast<int64_t>(group.channels.size());
  for (const char* criterion : {"bn", "l1"})  // an untrained network: every γ is one
    for (const double ratio : {0.1, 0.3, 0.7}) {
      const Selection selection =
          select_channels(graph, map, {.scope = Scope::global, .ratio = ratio, .round_to = 1},
                          [&](const ChannelGroup& group, std::string& reason) {
                            return importance(graph, map, group, {.criterion = criterion}, reason);
                          });
      EXPECT_EQ(static_cast<double>(selection.removed().size()), std::floor(static_cast<double>(channels) * ratio));
    }
}

TEST(Budget, ComparableScoresAreTakenAsTheyAre) {
  const Graph graph = build("lenet-300-100");
  const ChannelMap map = analyze_channels(graph);
  // Every channel of the second layer matters less than any of the first.
  const Importance scores = [](const ChannelGroup& group, std::string&) {
    const auto size = static_cast<int64_t>(group.channels.size());
    return at::arange(1, size + 1, at::kDouble) * (size == 300 ? 1 : 1e-3);
  };
  BudgetOptions options{.scope = Scope::global, .ratio = 0.2, .round_to = 1, .floor = 0.1};
  options.comparable = true;
  EXPECT_EQ(removed_in(select_channels(graph, map, options, scores), "ip2"), 80);
  options.comparable = false;
  EXPECT_EQ(removed_in(select_channels(graph, map, options, scores), "ip2"), 20);
}

TEST(Budget, InnerOnlyLeavesStreamsAlone) {
  const Selection selection = select(build("resnet20"), {.ratio = 0.5, .round_to = 1, .inner_only = true});
  int cut = 0;
  for (const auto& group : selection.groups) cut += group.removed.empty() ? 0 : 1;
  EXPECT_EQ(cut, 9);  // the first convolution of every block
  EXPECT_EQ(plan(selection, "layer1.0.conv1").kept, 8);
  EXPECT_THAT(plan(selection, "conv1").reason, testing::HasSubstr("residual"));
}

TEST(Budget, GroupsOfAGroupedConvolutionStayEqual) {
  TestGraph g(3);
  const auto x = g.input("x", {-1, 8, 6, 6});
  const Graph graph = g.finish(g.conv(g.relu(g.conv(x, 8, 32, 3, 4)), 32, 2));
  const Selection selection = select(graph, {.ratio = 0.5, .round_to = 8});
  EXPECT_EQ(selection.groups[0].total, 8);  // places of a group
  EXPECT_EQ(selection.groups[0].kept, 4);   // 16 channels, a multiple of 8
}

TEST(Budget, GlobsChooseLayersAndRatios) {
  const Graph graph = build("resnet20");
  const Selection own = select(
      graph,
      {.ratio = 0.5, .layers = {"layer1.*.conv1", "layer2.1.conv1=0.25"}, .skip = {"layer1.2.*"}, .round_to = 1});
  EXPECT_EQ(plan(own, "layer1.0.conv1").kept, 8);
  EXPECT_EQ(plan(own, "layer2.1.conv1").kept, 24);
  EXPECT_EQ(plan(own, "layer1.2.conv1").kept, 16);
  EXPECT_EQ(plan(own, "layer3.1.conv1").reason, "not asked for by `layers`");
  EXPECT_THAT(refusal(graph, {.layers = {"layer9.*"}}), testing::HasSubstr("layer9.*"));
  EXPECT_THAT(refusal(graph, {.skip = {"nothing"}}), testing::HasSubstr("nothing"));
  EXPECT_THAT(refusal(graph, {.layers = {"layer1.*=2"}}), testing::HasSubstr("fraction"));
}

TEST(Budget, RatiosOutsideAreRefused) {
  const Graph graph = build("lenet-300-100");
  for (const double ratio : {0.0, 1.0, -0.5, 1.5, std::nan("")})
    EXPECT_THAT(refusal(graph, {.ratio = ratio}),
                testing::HasSubstr("`channels`: expected a fraction between 0 and 1"));
  EXPECT_THAT(refusal(graph, {.budget = Budget::params, .ratio = 1.5}), testing::HasSubstr("`params`"));
  EXPECT_THAT(refusal(graph, {.budget = Budget::macs, .ratio = 1.5}), testing::HasSubstr("`macs`"));
}

TEST(Budget, AStepCountsFromTheWholeNetwork) {
  const Graph graph = build("lenet-300-100");
  const WholeNetwork twice{.widths = {{"ip1", 600}, {"ip2", 100}, {"ip3", 10}}};
  const Selection half = select(graph, {.ratio = 0.5, .layers = {"ip1", "ip2=0.8"}, .round_to = 1, .part = 0.5});
  EXPECT_EQ(plan(half, "ip1").kept, 225);
  EXPECT_EQ(plan(half, "ip2").kept, 60);
  const Selection later = select(graph, {.ratio = 0.6, .round_to = 1, .whole = twice});
  EXPECT_EQ(plan(later, "ip1").kept, 240);
  EXPECT_EQ(plan(later, "ip2").kept, 40);
  // Of a later step nothing may be left to do, of the only one not.
  EXPECT_TRUE(select(graph, {.ratio = 0.5, .layers = {"ip1"}, .round_to = 1, .whole = twice}).removed().empty());
  EXPECT_THAT(refusal(graph, {.ratio = 1e-13, .layers = {"ip2"}, .round_to = 8, .part = 0.5}),
              testing::HasSubstr("rounds to nothing"));
}

TEST(Budget, NothingToRemoveIsAnErrorThatListsWhy) {
  TestGraph g(3);
  const Graph one = g.finish(g.linear(g.relu(g.linear(g.input("x", {-1, 4}), 4, 1)), 1, 3));
  EXPECT_THAT(refusal(one, {.ratio = 0.5, .round_to = 1}), testing::HasSubstr("it has one channel"));
  EXPECT_THAT(refusal(build("lenet-300-100"), {.ratio = 1e-13, .round_to = 8}),
              testing::HasSubstr("rounds to nothing"));
  TestGraph h(3);
  const Graph small = h.finish(h.linear(h.relu(h.linear(h.input("x", {-1, 4}), 4, 6)), 6, 3));
  EXPECT_THAT(refusal(small, {.ratio = 0.5}), testing::HasSubstr("`round-to` 8"));
}

// A file whose layers lie in branches, or are of integers, does have layers.
TEST(Budget, NothingToRemoveNamesTheOperatorsWithoutARule) {
  TestGraph g(3);
  const std::string x = g.input("x", {-1, 4});
  const Graph held = g.finish(g.node("Frobnicate", {g.node("Frobnicate", {x})}));
  EXPECT_THAT(refusal(held, {.ratio = 0.5}), testing::HasSubstr("no rule for Frobnicate (2 nodes)"));
  TestGraph h(3);
  const Graph plain = h.finish(h.relu(h.input("x", {-1, 4})));
  EXPECT_THAT(refusal(plain, {.ratio = 0.5}), testing::EndsWith("no layer makes channels"));
  // All layers lie in branches that data decide: no shape of an input would help.
  TestGraph b(3);
  const std::string decides = b.input("sr", {});
  const OpaqueAttribute body{.type = 5, .bytes = ""};  // onnx::AttributeProto::GRAPH
  const Graph branches = b.finish(b.node("If", {decides}, {{"then_branch", body}, {"else_branch", body}}));
  EXPECT_THAT(refusal(branches, {.ratio = 0.5}), testing::HasSubstr("outside the subgraphs of node 'If"));
}

}  // namespace
}  // namespace pare
