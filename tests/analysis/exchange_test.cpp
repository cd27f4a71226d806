// What may be removed and what may be exchanged are two things.
#include "pare/analysis/exchange.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/builder.h"

namespace pare {
namespace {

GroupExchange first_group(const Graph& graph) {
  const ChannelMap removal = analyze_channels(graph);
  return exchange_in(analyze_exchange(graph), removal, removal.groups.front());
}

TEST(Exchange, AStreamUnderALayerNormIsKeptButMoves) {
  TestGraph g;
  const auto a = g.node("MatMul", {g.input("x", {-1, 4}), g.random({4, 6})});
  const auto norm = g.node("LayerNormalization", {a, g.positive({6}), g.random({6})});
  const Graph graph = g.finish(g.node("MatMul", {norm, g.random({6, 3})}));
  const ChannelGroup removal = analyze_channels(graph).groups.front();
  EXPECT_EQ(removal.frozen, 6);
  EXPECT_EQ(first_group(graph).permutable, 6);
  EXPECT_EQ(first_group(graph).blocks, 0);
  const ExchangeMap exchange = analyze_exchange(graph);
  EXPECT_TRUE(exchange.rules.at(0).kept);
  EXPECT_EQ(exchange.rules.at(0).fixed, "");
}

TEST(Exchange, GroupsAreBlocks) {
  TestGraph g;
  const auto a = g.relu(g.conv(g.input("x", {-1, 2, 4, 4}), 2, 8, 1));
  const Graph graph = g.finish(g.conv(g.relu(g.conv(a, 8, 12, 3, 4)), 12, 2));
  const GroupExchange order = first_group(graph);
  EXPECT_EQ(order.permutable, 8);
  EXPECT_EQ(order.blocks, 4);
  EXPECT_EQ(analyze_exchange(graph).blocks_of_kind, (std::map<int64_t, int64_t>{{0, 4}}));
}

TEST(Exchange, GroupsAcrossGroupsStay) {
  TestGraph g;
  const auto a = g.relu(g.conv(g.input("x", {-1, 2, 4, 4}), 2, 8, 1));
  const auto norm = g.node("GroupNormalization", {a, g.positive({8}), g.random({8})}, {{"num_groups", int64_t{4}}});
  const Graph graph = g.finish(g.conv(g.conv(norm, 8, 8, 3, 2), 8, 2));
  const GroupExchange order = first_group(graph);
  EXPECT_EQ(order.permutable, 0);
  EXPECT_EQ(order.fixed, 8);
  EXPECT_NE(order.reason.find("share channels"), std::string::npos) << order.reason;
}

TEST(Exchange, OutputsStay) {
  TestGraph g;
  const Graph graph = g.finish(g.conv(g.input("x", {-1, 2, 4, 4}), 2, 8, 1));
  EXPECT_EQ(first_group(graph).permutable, 0);
  EXPECT_NE(first_group(graph).reason.find("graph output"), std::string::npos);
}

}  // namespace
}  // namespace pare
