// Sparsity in one shot: what is asked for is zero, the network stays nearer than without compensation, every kind of
// layer and pattern.
#include "pare/sparsify/one_shot.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "pare/error.h"
#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

using Ints = std::vector<int64_t>;

Graph network(uint64_t seed) {
  TestGraph g(seed);
  const auto x = g.input("x", {-1, 3, 10, 10});
  const auto a = g.relu(g.conv(x, 3, 16));
  const auto d = g.relu(g.conv(a, 16, 16, 3, 16));
  const auto sum = g.node("Add", {g.conv(d, 16, 16, 1), a});
  const auto grouped = g.relu(g.conv(sum, 16, 16, 3, 2));
  const auto flat = g.node("Flatten", {g.node("GlobalAveragePool", {grouped})});
  const auto hidden = g.relu(g.node("MatMul", {flat, g.random({16, 20})}));
  return cast(g.finish(g.linear(hidden, 20, 6)), at::kFloat);
}

OneShot sparse(const Graph& graph, const OneShotOptions& options) {
  Observer nobody;
  return sparsify_in_one_shot(graph, samples_of(random_inputs(graph, 120, 3)), options, nobody);
}

double distance(const Graph& a, const Graph& b) {
  const at::NoGradGuard no_grad;
  const auto inputs = random_inputs(a, 60, 99);
  const at::Tensor y = forward(a, inputs).outputs[0];
  return ((y - forward(b, inputs).outputs[0]).norm() / y.norm()).item<double>();
}

OneShotOptions asking(bool solve, double sparsity, MaskOptions mask) {
  return {.solve = solve, .sparsity = sparsity, .mask = std::move(mask)};
}

const MaskOptions kMasks[] = {{.distribution = MaskDistribution::uniform},
                              {.distribution = MaskDistribution::erk},
                              {.distribution = MaskDistribution::owl},
                              {.with_last = true, .distribution = MaskDistribution::uniform},
                              {.pattern = "2:4"},
                              {.distribution = MaskDistribution::uniform, .block = "1x4"},
                              {.distribution = MaskDistribution::uniform, .block = "4x1"}};

TEST(OneShot, HasTheZerosOfItsMasksAndAsManyAsAsked) {
  const Graph graph = network(4);
  for (const bool solve : {false, true})
    for (const MaskOptions& mask : kMasks) {
      const OneShot found = sparse(graph, asking(solve, 0.5, mask));
      int64_t all = 0, kept = 0;
      for (const auto& [name, own] : found.masks) {
        all += own.numel();
        kept += own.sum().item<int64_t>();
        EXPECT_TRUE(found.graph.tensor(name).masked_select(own.logical_not()).eq(0).all().item<bool>()) << name;
      }
      EXPECT_EQ(found.masks.size(), mask.with_last ? 6u : 5u);
      const double part = static_cast<double>(kept) / static_cast<double>(all);
      // What fills no group of four inputs, or no tile, stays: the depthwise layer and the first.
      EXPECT_NEAR(part, 0.5, mask.pattern.empty() && mask.block.empty() ? 0.01 : 0.25);
    }
}

TEST(OneShot, CompensationComesNearer) {
  double wanda = 0, solved = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const Graph graph = network(seed);
    const MaskOptions mask{.distribution = MaskDistribution::uniform};
    wanda += distance(graph, sparse(graph, asking(false, 0.5, mask)).graph);
    solved += distance(graph, sparse(graph, asking(true, 0.5, mask)).graph);
  }
  EXPECT_LT(solved, 0.7 * wanda);
}

TEST(OneShot, WandaMovesNoWeight) {
  const Graph graph = network(2);
  const OneShot found = sparse(graph, asking(false, 0.6, {.distribution = MaskDistribution::uniform}));
  for (const auto& [name, mask] : found.masks)
    EXPECT_TRUE(found.graph.tensor(name).equal(graph.tensor(name) * mask)) << name;
}

TEST(OneShot, PatternsLieAlongTheInputs) {
  const Graph graph = network(6);
  const OneShot found = sparse(graph, asking(true, 0.5, {.pattern = "2:4"}));
  for (const auto& [name, mask] : found.masks) {
    if (mask.dim() == 2) {  // MatMul [in, out]
      EXPECT_TRUE(mask.reshape({4, 4, -1}).sum(1).eq(2).all().item<bool>()) << name;
    } else if (mask.size(1) % 4 == 0) {
      EXPECT_TRUE(mask.reshape({mask.size(0), -1, 4, mask.size(2), mask.size(3)}).sum(2).eq(2).all().item<bool>())
          << name;
    } else {
      EXPECT_TRUE(mask.all().item<bool>()) << name;
    }
  }
}

TEST(OneShot, OutlierRatiosMoveSparsityWithinBounds) {
  const std::vector<double> parts = owl_sparsities({0.01, 0.05, 0.02}, {100, 100, 300}, 0.6);
  EXPECT_GT(parts[0], parts[2]);
  EXPECT_GT(parts[2], parts[1]);
  for (const double part : parts) EXPECT_NEAR(part, 0.6, 0.08 + 1e-12);
  EXPECT_NEAR((parts[0] * 100 + parts[1] * 100 + parts[2] * 300) / 500, 0.6, 1e-12);
  EXPECT_EQ(owl_sparsities({0.1, 0.1}, {1, 9}, 0.5), (std::vector<double>{0.5, 0.5}));
}

TEST(OneShot, TilesAreNamedAsOutputsByInputs) {
  EXPECT_EQ(parse_tile("16x1").outputs, 16);
  EXPECT_EQ(parse_tile("1x4").inputs, 4);
  for (const char* bad : {"", "4", "0x4", "4x", "4x4x4", "1x1000"}) EXPECT_THROW(parse_tile(bad), Error) << bad;
}

TEST(OneShot, AWeightThatSeveralLayersReadStaysDenseAndIsNamed) {
  TestGraph g(3);
  const auto x = g.input("x", {-1, 12});
  const auto shared = g.random({12, 12});
  const auto y = g.relu(g.node("MatMul", {g.relu(g.node("MatMul", {x, shared})), shared}));
  const Graph graph = cast(g.finish(g.linear(g.relu(g.linear(y, 12, 12)), 12, 4)), at::kFloat);
  const OneShot found = sparse(graph, asking(true, 0.5, {.distribution = MaskDistribution::uniform}));
  EXPECT_FALSE(found.masks.contains(shared));
  ASSERT_EQ(found.notes.size(), 1u);
  EXPECT_THAT(found.notes[0], testing::HasSubstr("several layers read it"));
}

}  // namespace
}  // namespace pare
