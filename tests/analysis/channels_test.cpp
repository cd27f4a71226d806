// Cases of the channel analysis that are about the analysis alone; passes/ tests what is removed by it.
#include "pare/analysis/channels.h"

#include <gtest/gtest.h>

#include "support/builder.h"

namespace pare {
namespace {

using Ints = std::vector<int64_t>;

// Channels beside entries that are none, spread over two axes: they still vary along both when all is united
// that can be, and the search for an axis must end all the same.
TEST(ChannelAnalysis, ChannelsAmongOtherEntriesOnTwoAxes) {
  TestGraph g;
  const auto x = g.input("x", {1, 2, 4, 4});
  const auto joined = g.node("Concat", {g.relu(g.conv(x, 2, 4)), x}, {{"axis", int64_t{1}}});
  const auto folded = g.node("Reshape", {joined, g.integers({1, 2, 3, 4, 4})});
  const auto turned = g.node("Transpose", {folded}, {{"perm", Ints{0, 2, 1, 3, 4}}});
  const Graph graph = g.finish(g.conv(g.node("Reshape", {turned, g.integers({1, 6, 4, 4})}), 6, 3));
  const ChannelMap map = analyze_channels(graph);
  // Along the first of the two: three channels that go together, and one that is tied to what is none.
  ASSERT_FALSE(map.groups.empty());
  EXPECT_EQ(map.groups[0].channels.size(), 2U);
  EXPECT_EQ(map.groups[0].frozen, 1U);
  EXPECT_FALSE(map.groups[0].reason.empty());
}

}  // namespace
}  // namespace pare
