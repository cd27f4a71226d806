#include "pare/run.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/error.h"
#include "support/builder.h"

namespace pare {
namespace {

using Ints = std::vector<int64_t>;

Graph small_net() {
  TestGraph g;
  auto x = g.relu(g.batch_norm(g.conv(g.input("x", {-1, 2, 5, 5}), 2, 4), 4));
  return g.finish(g.linear(g.node("Flatten", {g.node("GlobalAveragePool", {x})}), 4, 3));
}

// Every parameter's gradient of a sum of squares against central differences.
TEST(Program, GradientsOfParametersAreCentralDifferences) {
  const Graph graph = small_net();
  const Program program(graph);
  const auto inputs = random_inputs(graph, 3, 5);
  TensorMap leaves;
  for (const auto& [name, tensor] : graph.tensors) leaves[name] = tensor.clone().requires_grad_();
  const auto loss = [&](const TensorMap& parameters) {
    return program.run(inputs, {.parameters = &parameters}).outputs[0].square().sum();
  };
  loss(leaves).backward();
  const at::NoGradGuard no_grad;
  size_t checked = 0;
  for (const auto& [name, leaf] : leaves) {
    ASSERT_TRUE(leaf.grad().defined()) << name;
    for (int64_t i = 0; i < std::min<int64_t>(leaf.numel(), 4); ++i) {
      const double step = 1e-6;
      TensorMap moved = graph.tensors;
      moved[name] = graph.tensors.at(name).clone();
      moved[name].view(-1)[i] += step;
      const double up = loss(moved).item<double>();
      moved[name].view(-1)[i] -= 2 * step;
      const double down = loss(moved).item<double>();
      EXPECT_NEAR(leaf.grad().view(-1)[i].item<double>(), (up - down) / (2 * step), 1e-6) << name << " " << i;
      ++checked;
    }
  }
  EXPECT_GE(checked, 20);
}

TEST(Program, NeverWritesIntoInputsParametersOrTaps) {
  const Graph graph = small_net();
  const Program program(graph);
  const at::NoGradGuard no_grad;
  const auto inputs = random_inputs(graph, 2, 5);
  const at::Tensor before = inputs[0].clone();
  TensorMap tensors;
  for (const auto& [name, tensor] : graph.tensors) tensors[name] = tensor.clone();
  const std::string normed = graph.nodes[1].outputs[0];  // read by an in-place Relu
  const auto tapped = program.run(inputs, {.taps = {normed}}).tapped.at(normed);
  EXPECT_LT(tapped.min().item<double>(), 0) << "the Relu wrote into the tapped value";
  EXPECT_TRUE(inputs[0].equal(before));
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(graph.tensors.at(name).equal(tensor)) << name;
  EXPECT_TRUE(program.run(inputs).outputs[0].equal(program.run(inputs).outputs[0]));
}

TEST(Program, AddOfAValueWithItselfAndOfABroadcastOne) {
  TestGraph g;
  auto x = g.relu(g.input("x", {2, 3}));
  auto twice = g.node("Add", {x, x});
  auto row = g.node("ReduceSum", {twice, g.integers({0})});  // [1, 3]
  const Graph graph = g.finish(g.node("Add", {row, twice}));
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> inputs = {at::tensor({1.0, -2.0, 3.0, 4.0, 5.0, -6.0}).reshape({2, 3}).to(at::kDouble)};
  const at::Tensor expected = at::tensor({12.0, 10.0, 12.0, 18.0, 20.0, 6.0}).reshape({2, 3}).to(at::kDouble);
  EXPECT_TRUE(forward(graph, inputs).outputs[0].equal(expected));
}

// Training: batch statistics normalise, the running ones move as PyTorch moves them.
TEST(Program, TrainingMovesRunningStatistics) {
  const Graph graph = small_net();
  const auto inputs = random_inputs(graph, 4, 9);
  TensorMap statistics;
  const auto& norm = graph.nodes[1];
  const auto tapped =
      forward(graph, inputs, {.training = true, .statistics = &statistics, .taps = {norm.inputs[0], norm.outputs[0]}})
          .tapped;
  const at::Tensor x = tapped.at(norm.inputs[0]);
  const at::Tensor y = tapped.at(norm.outputs[0]);
  const at::Tensor mean = x.mean(Ints{0, 2, 3});
  const at::Tensor unbiased = x.var(Ints{0, 2, 3}, /*unbiased=*/true);
  ASSERT_EQ(statistics.size(), 2);
  EXPECT_TRUE(
      at::allclose(statistics.at(norm.inputs[3]), 0.9 * graph.tensor(norm.inputs[3]) + 0.1 * mean, 1e-9, 1e-12));
  EXPECT_TRUE(
      at::allclose(statistics.at(norm.inputs[4]), 0.9 * graph.tensor(norm.inputs[4]) + 0.1 * unbiased, 1e-9, 1e-12));
  EXPECT_TRUE(at::allclose(y.mean(Ints{0, 2, 3}), graph.tensor(norm.inputs[2]), 1e-9, 1e-9));
}

TEST(Program, DropoutDropsOnlyInTraining) {
  TestGraph g;
  auto x = g.input("x", {1, 10000});
  const Graph graph = g.finish(g.node("Dropout", {x, g.tensor(at::scalar_tensor(0.25, at::kDouble))}));
  const std::vector<at::Tensor> ones = {at::ones({1, 10000}, at::kDouble)};
  EXPECT_TRUE(forward(graph, ones).outputs[0].equal(ones[0]));
  const at::Tensor dropped = forward(graph, ones, {.training = true}).outputs[0];
  const double zeros = dropped.eq(0).sum().item<double>();
  EXPECT_NEAR(zeros, 2500, 200);
  EXPECT_NEAR(dropped.max().item<double>(), 1 / 0.75, 1e-12);
}

TEST(Program, ErrorsNameTheNode) {
  TestGraph g;
  auto x = g.conv(g.input("x", {-1, 3, 4, 4}), 3, 4);
  const Graph graph = g.finish(x);
  const std::vector<at::Tensor> wrong = {at::zeros({1, 5, 4, 4}, at::kDouble)};
  try {
    forward(graph, wrong);
    FAIL() << "five channels were taken for three";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::shape);
    EXPECT_NE(std::string(error.what()).find("Conv0"), std::string::npos) << error.what();
  }
  EXPECT_THROW(forward(graph, {}), Error);
  EXPECT_THROW(forward(graph, wrong, {.taps = {"nowhere"}}), Error);
}

}  // namespace
}  // namespace pare
