// Graphs whose file fixes the batch, given other numbers of images: what each batch gives alone, put together.
#include "pare/exec/fixed_batch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

using Ints = std::vector<int64_t>;

// A Reshape to `batch` rows: no other number of images passes.
Graph fixed_net(int64_t batch) {
  TestGraph g(3);
  const auto x = g.input("x", {batch, 2, 3, 3});
  const auto hidden = g.relu(g.conv(x, 2, 4));
  return g.finish(g.linear(g.node("Reshape", {hidden, g.integers({batch, 36})}), 36, 3));
}

double distance(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST(FixedBatch, ImagesRunABatchAtATime) {
  for (const int64_t batch : {1, 2, 4}) {
    const Graph graph = fixed_net(batch);
    EXPECT_EQ(fixed_batch(graph), batch);
    const at::Tensor images = at::randn({8, 2, 3, 3}, at::kDouble);
    std::vector<at::Tensor> expected;
    for (int64_t begin = 0; begin < 8; begin += batch) {
      const at::Tensor part = images.narrow(0, begin, batch);
      expected.push_back(forward(graph, {&part, 1}).outputs[0]);
    }
    for (const int64_t count : {8, 5, 1}) {  // five and one do not come out even
      const at::Tensor some = images.narrow(0, 0, count);
      const RunResult found = forward(graph, {&some, 1}, {.taps = {"Conv0_0", "x", "t0"}});
      ASSERT_EQ(found.outputs[0].sizes(), (Ints{count, 3}));
      EXPECT_LE(distance(found.outputs[0], at::cat(expected).narrow(0, 0, count)), 1e-12);
      EXPECT_EQ(found.tapped.at("Conv0_0").sizes(), (Ints{count, 4, 3, 3}));
      EXPECT_TRUE(found.tapped.at("x").equal(some));
      EXPECT_TRUE(found.tapped.at("t0").equal(graph.tensor("t0")));
    }
  }
}

TEST(FixedBatch, GradientsFollow) {
  const Graph graph = fixed_net(1);
  at::Tensor images = at::randn({3, 2, 3, 3}, at::kDouble).requires_grad_();
  forward(graph, {&images, 1}).outputs[0].square().sum().backward();
  for (int64_t i = 0; i < 3; ++i) {
    at::Tensor one = images.detach().narrow(0, i, 1).clone().requires_grad_();
    forward(graph, {&one, 1}).outputs[0].square().sum().backward();
    EXPECT_LE(distance(images.grad().narrow(0, i, 1), one.grad()), 1e-12);
  }
}

TEST(FixedBatch, AnOutputWithoutTheBatchGetsAnAxisForIt) {
  TestGraph g(4);
  const auto scores = g.linear(g.input("x", {1, 5}), 5, 3);
  const Graph graph = g.finish(g.node("Squeeze", {scores, g.integers({0})}));
  const at::Tensor images = at::randn({4, 5}, at::kDouble);
  EXPECT_EQ(forward(graph, {&images, 1}).outputs[0].sizes(), (Ints{4, 3}));
}

TEST(FixedBatch, OpenAndUnlikeExtentsHaveNone) {
  EXPECT_EQ(fixed_batch(fixed_net(-1)), 0);
  TestGraph g(5);
  const auto a = g.input("a", {2, 3}), b = g.input("b", {1, 3});
  EXPECT_EQ(fixed_batch(g.finish(g.node("Add", {a, b}))), 0);
}

}  // namespace
}  // namespace pare
