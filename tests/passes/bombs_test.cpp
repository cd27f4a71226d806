// Graphs of few bytes that unfold to gigabytes: what folding and analysis do with them stays small.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>

#include "pare/analysis/channels.h"
#include "pare/core/memory.h"
#include "pare/error.h"
#include "pare/passes/simplify.h"
#include "support/builder.h"

namespace pare {
namespace {

struct Bombs : testing::Test {
  Bombs() { set_memory_limit(uint64_t{2} << 30); }
  ~Bombs() override { set_memory_limit(0); }
};

size_t bytes_of(const Graph& graph) {
  size_t bytes = 0;
  for (const auto& [name, tensor] : graph.tensors) bytes += tensor.nbytes();
  return bytes;
}

// x · (a constant made by a chain of `op`).
template <typename Grow>
Graph constant_chain(int steps, Grow grow) {
  TestGraph g;
  const auto x = g.input("x", {1, 16});
  auto c = g.random({1, 16});
  for (int i = 0; i < steps; ++i) c = grow(g, c);
  return g.finish(g.node("Add", {x, g.node("ReduceSum", {c})}));
}

TEST_F(Bombs, FoldingStaysWithinWhatTheFileHolds) {
  const auto doubled = [](TestGraph& g, const std::string& c) {
    return g.node("Concat", {c, c}, {{"axis", int64_t{1}}});
  };
  const Graph chain = constant_chain(40, doubled);
  EXPECT_LT(bytes_of(simplify(chain)), 100U << 20);
  const auto tiled = [](TestGraph& g, const std::string& c) { return g.node("Tile", {c, g.integers({1, 1 << 12})}); };
  EXPECT_LT(bytes_of(simplify(constant_chain(3, tiled))), 100U << 20);
  // Many results, each small.
  TestGraph g;
  auto sum = g.input("x", {1, 1});
  for (int i = 0; i < 600; ++i)
    sum = g.node("Add", {sum, g.node("ReduceSum", {g.node("ConstantOfShape", {g.integers({1 << 16})})})});
  EXPECT_LT(bytes_of(simplify(g.finish(sum))), 100U << 20);
}

TEST_F(Bombs, OrdinaryConstantsStillFold) {
  TestGraph g;
  const auto x = g.input("x", {1, 2048});
  auto w = g.random({2048, 1024});
  for (int i = 0; i < 12; ++i) w = g.node("Neg", {w});
  const Graph folded = simplify(g.finish(g.node("MatMul", {x, w})));
  EXPECT_EQ(folded.nodes.size(), 1U);
  EXPECT_EQ(folded.tensors.size(), 1U);
}

// After a layer, channels are doubled, spread and padded: ids stay few and the reason says why.
TEST_F(Bombs, LabelsOfWhatGrowsAreFrozen) {
  struct Growth {
    const char* op;
    std::string (*grow)(TestGraph&, const std::string&);
    int steps;
  };
  const Growth growths[] = {
      {"Concat",
       [](TestGraph& g, const std::string& x) {
         return g.node("Concat", {x, x}, {{"axis", int64_t{1}}});
       },
       36},
      {"Expand",
       [](TestGraph& g, const std::string& x) {
         return g.node("Transpose", {g.node("Expand", {x, g.integers({1 << 14, 1, 1 << 15, 1})})},
                       {{"perm", std::vector<int64_t>{3, 1, 2, 0}}});
       },
       1},
      {"Pad",
       [](TestGraph& g, const std::string& x) {
         return g.node("Pad", {x, g.integers({0, 1 << 30, 0, 0, 0, 1 << 30, 0, 0})});
       },
       1},
      {"Tile",
       [](TestGraph& g, const std::string& x) {
         return g.node("Tile", {x, g.integers({1, 1 << 12, 8, 8})});
       },
       4},
  };
  for (const auto& [op, grow, steps] : growths) {
    TestGraph g;
    auto x = g.conv(g.input("x", {1, 3, 4, 4}), 3, 8);
    for (int i = 0; i < steps; ++i) x = grow(g, x);
    const Graph graph = g.finish(g.relu(x));
    const auto start = std::chrono::steady_clock::now();
    const ChannelMap map = analyze_channels(graph);
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 20) << op;
    int64_t ids = 0;
    for (const auto& [name, tensor] : map.values) ids += tensor.numel();
    EXPECT_LE(ids, 1 << 23) << op;
    ASSERT_FALSE(map.groups.empty()) << op;
    EXPECT_FALSE(map.groups[0].prunable()) << op;
    EXPECT_NE(map.groups[0].reason.find(op), std::string::npos) << op << ": " << map.groups[0].reason;
  }
}

// A batch norm with fewer parameters than channels cannot run; its channels stay, and nothing is sliced beyond its end.
TEST(WrongParameters, FreezeTheirChannels) {
  TestGraph g;
  const auto x = g.conv(g.input("x", {1, 3, 4, 4}), 3, 8);
  const Graph graph = g.finish(g.conv(g.batch_norm(x, 1), 8, 2));
  const ChannelMap map = analyze_channels(graph);
  ASSERT_FALSE(map.groups.empty());
  EXPECT_FALSE(map.groups[0].prunable());
  EXPECT_NE(map.groups[0].reason.find("no place for 8 channels"), std::string::npos) << map.groups[0].reason;
}

}  // namespace
}  // namespace pare
