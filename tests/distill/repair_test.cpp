// Repair by distillation: it learns from the original, and never ends worse than it began.
#include "pare/distill/repair.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pare/error.h"
#include "pare/layerwise/sensitivity.h"
#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

Graph teacher() {
  TestGraph g(3);
  const auto x = g.input("x", {-1, 3, 8, 8});
  const auto a = g.relu(g.conv(x, 3, 8));
  const auto b = g.relu(g.node("Add", {g.conv(a, 8, 8), a}));
  return g.finish(g.linear(g.node("Flatten", {g.node("GlobalAveragePool", {b})}), 8, 4));
}

Graph disturbed(Graph graph) {
  for (auto& [name, tensor] : graph.tensors) tensor = tensor + 0.1 * at::randn_like(tensor);
  return graph;
}

Samples pictures(int64_t count) {
  at::manual_seed(7);
  return samples_of({at::randn({count, 3, 8, 8}, at::kDouble)});
}

double distance(const Graph& a, const Graph& b, const Samples& samples) {
  const auto inputs = samples.inputs(0, samples.size);
  return divergence(Program(a).run(inputs, {}).outputs[0], Program(b).run(inputs, {}).outputs[0],
                    RepairOptions().temperature) /
         static_cast<double>(samples.size);
}

TEST(Repair, LearnsFromTheOriginal) {
  const Graph original = teacher(), broken = disturbed(original);
  const Samples all = pictures(60);
  Observer nobody;
  const Repaired result = repair(original, broken, part_of(all, 20, 60), part_of(all, 0, 20),
                                 {.steps = 150, .batch = 16, .rate = 3e-3}, nobody);
  EXPECT_LT(result.after, 0.3 * result.before);
  EXPECT_LT(distance(original, result.graph, part_of(all, 0, 20)),
            0.3 * distance(original, broken, part_of(all, 0, 20)));
  EXPECT_GT(result.best_step, 0);
  EXPECT_EQ(result.steps, 150);
}

// However many steps there is time for: the rate falls with the time, and the end is looked at.
TEST(Repair, LearnsWithinItsTime) {
  const Graph original = teacher(), broken = disturbed(original);
  const Samples all = pictures(60);
  Observer nobody;
  const Repaired result = repair(original, broken, part_of(all, 20, 60), part_of(all, 0, 20),
                                 {.minutes = 0.02, .batch = 16, .rate = 3e-3}, nobody);
  EXPECT_LT(result.after, 0.7 * result.before);
  EXPECT_GT(2 * result.best_step, result.steps);
}

// Samples enough are judged on as they are: what it says is the divergence on them.
TEST(Repair, SaysWhatHeldOutSamplesSay) {
  const Graph original = teacher(), broken = disturbed(original);
  const Samples all = pictures(240);
  const Samples held = part_of(all, 0, 200);
  Observer nobody;
  const Repaired result =
      repair(original, broken, part_of(all, 200, 240), held, {.steps = 60, .batch = 16, .rate = 3e-3}, nobody);
  EXPECT_NEAR(result.before, distance(original, broken, held), 1e-9);
  EXPECT_NEAR(result.after, distance(original, result.graph, held), 1e-9);
}

// A rate that throws it off everywhere: what is returned is what was given, bit by bit.
TEST(Repair, NeverEndsWorseThanItBegan) {
  const Graph original = teacher();
  Graph close = original;
  close.tensors["t0"] = close.tensors["t0"] * 1.0001;
  const Samples all = pictures(30);
  Observer nobody;
  const Repaired result =
      repair(original, close, part_of(all, 10, 30), part_of(all, 0, 10), {.steps = 20, .batch = 8, .rate = 5}, nobody);
  EXPECT_EQ(result.best_step, 0);
  EXPECT_EQ(result.after, result.before);
  for (const auto& [name, tensor] : close.tensors) EXPECT_TRUE(tensor.equal(result.graph.tensors.at(name))) << name;
  EXPECT_THAT(repair_note(result, 10), testing::HasSubstr("nothing better"));
}

TEST(Repair, KeepsToItsTimeAndNeedsSamples) {
  const Graph original = teacher();
  const Samples all = pictures(30);
  Observer nobody;
  const Repaired result =
      repair(original, original, part_of(all, 10, 30), part_of(all, 0, 10), {.minutes = 1e-6, .batch = 4}, nobody);
  EXPECT_GE(result.steps, 1);
  EXPECT_LE(result.steps, 4);
  EXPECT_THROW(repair(original, original, all, Samples{}, {}, nobody), Error);
}

}  // namespace
}  // namespace pare
