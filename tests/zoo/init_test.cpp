#include "pare/zoo/init.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "pare/zoo/match.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

TEST(Init, BoundsAndMomentsOfTheUniformDistribution) {
  const Graph graph = build("resnet18", {}, 3);
  const at::Tensor weight = graph.tensor("layer4.0.conv1.weight");  // [512, 256, 3, 3]
  const double bound = 1 / std::sqrt(256.0 * 9);
  EXPECT_LE(weight.abs().max().item<double>(), bound);
  EXPECT_NEAR(weight.abs().max().item<double>(), bound, bound * 1e-4);
  EXPECT_NEAR(weight.mean().item<double>(), 0.0, bound * 2e-3);
  EXPECT_NEAR(weight.std().item<double>(), bound / std::sqrt(3.0), bound * 2e-3);
  EXPECT_LE(graph.tensor("fc.bias").abs().max().item<double>(), 1 / std::sqrt(512.0));
  EXPECT_GT(graph.tensor("fc.bias").abs().max().item<double>(), 0.0);
}

TEST(Init, FanInOfADepthwiseConvolutionIsItsWindow) {
  const Graph graph = build("mobilenetv1");
  EXPECT_NEAR(graph.tensor("model.13.0.weight").abs().max().item<double>(), 1.0 / 3, 1e-3);
}

TEST(Init, BatchNormStartsAsTheIdentity) {
  const Graph graph = build("vgg11-bn");
  EXPECT_TRUE(graph.tensor("features.1.weight").eq(1).all().item<bool>());
  EXPECT_TRUE(graph.tensor("features.1.bias").eq(0).all().item<bool>());
  EXPECT_TRUE(graph.tensor("features.1.running_mean").eq(0).all().item<bool>());
  EXPECT_TRUE(graph.tensor("features.1.running_var").eq(1).all().item<bool>());
}

// Printed by PyTorch 1.13 after torch.manual_seed(7); the last biases are drawn last.
TEST(Init, EqualsPyTorch) {
  const auto expect = [](const at::Tensor& tensor, int64_t start, std::vector<float> values) {
    EXPECT_TRUE(tensor.flatten().narrow(0, start, 3).allclose(at::tensor(values), 0, 1e-9)) << tensor.flatten();
  };
  const Graph lenet = build("lenet-300-100", {}, 7);
  expect(lenet.tensor("ip1.weight"), 0, {0.00249446719F, -0.02151406F, 0.0113722645F});
  expect(lenet.tensor("ip3.bias"), 7, {0.0899246261F, 0.0513884909F, -0.031542588F});
  const Graph vgg = build("vgg11-bn", {}, 7);
  expect(vgg.tensor("features.0.weight"), 0, {0.0134416921F, -0.115930706F, 0.0612806119F});
  expect(vgg.tensor("classifier.bias"), 7, {0.00244863704F, 0.00423225481F, 0.0277710538F});
}

TEST(Init, TheSeedDecidesAndTheGlobalGeneratorStays) {
  at::manual_seed(11);
  const at::Tensor expected = at::rand({4});
  at::manual_seed(11);
  const Graph first = build("lenet-5", {}, 5);
  EXPECT_TRUE(at::rand({4}).equal(expected));
  at::manual_seed(12);
  const Graph again = build("lenet-5", {}, 5);
  const Graph other = build("lenet-5", {}, 6);
  for (const std::string& name : state_names(first)) {
    EXPECT_TRUE(first.tensor(name).equal(again.tensor(name))) << name;
    EXPECT_FALSE(first.tensor(name).equal(other.tensor(name))) << name;
  }
}

TEST(Init, LeavesItsArgumentAndOtherTensorsAlone) {
  const Graph graph = build("resnet20", {.dropout = 0.25}, 1);
  const at::Tensor before = graph.tensor("conv1.weight").clone();
  const Graph fresh = initialize(graph, 2);
  EXPECT_TRUE(graph.tensor("conv1.weight").equal(before));
  EXPECT_FALSE(fresh.tensor("conv1.weight").equal(before));
  EXPECT_EQ(fresh.tensor("dropout.ratio").item<double>(), 0.25);
  EXPECT_TRUE(fresh.tensor("layer2.0.shortcut.pads").equal(graph.tensor("layer2.0.shortcut.pads")));
  EXPECT_EQ(initialize(cast(graph, at::kDouble), 2).tensor("conv1.weight").scalar_type(), at::kDouble);
}

}  // namespace
}  // namespace pare
