// Images made from nothing have the statistics they are made for.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "pare/calibrate/distill_images.h"
#include "pare/calibrate/leaves.h"
#include "pare/calibrate/noise.h"
#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

double neighbour_correlation(const at::Tensor& images) {
  const at::Tensor a = images.narrow(3, 0, images.size(3) - 1);
  const at::Tensor b = images.narrow(3, 1, images.size(3) - 1);
  return ((a * b).mean() / images.square().mean()).item<double>();
}

TEST(Noise, KindsDifferInCorrelation) {
  const auto made = [](NoiseKind kind) { return noise_images(3, 24, 20, {.kind = kind, .count = 32, .seed = 5}); };
  const at::Tensor white = made(NoiseKind::white);
  const at::Tensor smooth = made(NoiseKind::smooth);
  const at::Tensor pink = made(NoiseKind::pink);
  for (const auto& images : {white, smooth, pink}) {
    EXPECT_EQ(images.sizes(), (std::vector<int64_t>{32, 3, 24, 20}));
    EXPECT_NEAR(images.std().item<double>(), 1, 1e-3);
    EXPECT_NEAR(images.mean().item<double>(), 0, 0.1);
  }
  EXPECT_NEAR(neighbour_correlation(white), 0, 0.05);
  EXPECT_GT(neighbour_correlation(smooth), 0.6);
  EXPECT_GT(neighbour_correlation(pink), 0.7);
  EXPECT_TRUE(pink.equal(made(NoiseKind::pink)));
  EXPECT_TRUE(at::isfinite(noise_images(1, 1, 1, {.count = 1})).all().item<bool>());
}

// A 1/f amplitude: the power at twice the frequency is a quarter.
TEST(Noise, PinkSpectrumFallsAsOneOverF) {
  const at::Tensor x = noise_images(1, 64, 64, {.kind = NoiseKind::pink, .count = 256, .seed = 1}).to(at::kDouble);
  const auto power = [&](int64_t u) {
    const at::Tensor wave =
        at::cos(at::arange(64, at::kDouble).add(0.5) * (3.14159265358979 * static_cast<double>(u) / 64));
    return at::mv(x.sum(2).reshape({256, 64}), wave).square().mean().item<double>();
  };
  EXPECT_NEAR(power(8) / power(16), 4, 1.5);
  EXPECT_NEAR(power(4) / power(16), 16, 6);
}

TEST(DistillImages, MatchTheRunningStatistics) {
  TestGraph g(3);
  const auto x = g.input("x", {-1, 3, 12, 12});
  const auto a = g.relu(g.batch_norm(g.conv(x, 3, 8), 8));
  const Graph graph = g.finish(g.batch_norm(g.conv(a, 8, 6), 6));
  const DistilledImages made = distill_images(graph, {.count = 16, .batch = 8, .steps = 60});
  EXPECT_EQ(made.source, "statistics of batch norms");
  EXPECT_EQ(made.inputs.at(0).size(0), 16);
  EXPECT_FALSE(made.inputs[0].requires_grad());
  EXPECT_LT(made.after, 0.1 * made.before);
}

TEST(DistillImages, WithoutBatchNormEveryClassIsSure) {
  TestGraph g;
  const auto hidden = g.relu(g.linear(g.input("x", {-1, 10}), 10, 16));
  const Graph graph = g.finish(g.linear(hidden, 16, 3));
  const DistilledImages made = distill_images(graph, {.count = 7, .batch = 3, .steps = 300});
  EXPECT_EQ(made.source, "classes");
  EXPECT_EQ(made.inputs.at(0).sizes(), (std::vector<int64_t>{7, 10}));
  EXPECT_LT(made.after, 0.5 * made.before);
  const at::Tensor found = forward(graph, made.inputs).outputs.at(0).argmax(1);
  EXPECT_TRUE(at::equal(found, at::tensor({0, 1, 2, 0, 1, 2, 0})));
}

TEST(DistillImages, FewerImagesThanClassesAreSpreadOverThem) {
  TestGraph g;
  const Graph graph = g.finish(g.linear(g.input("x", {-1, 12}), 12, 8));
  const DistilledImages made = distill_images(graph, {.count = 4, .batch = 3, .steps = 300});
  const at::Tensor found = forward(graph, made.inputs).outputs.at(0).argmax(1);
  EXPECT_TRUE(at::equal(found, at::tensor({0, 2, 4, 6})));
}

// Large ones are followed by the leaves that they began as.
TEST(DistillImages, LargeImagesOfClassesComeWithWhatTheyBeganAs) {
  TestGraph g;
  const auto pooled = g.node("GlobalAveragePool", {g.relu(g.conv(g.input("x", {-1, 3, 100, 100}), 3, 8))});
  const Graph graph = g.finish(g.linear(g.node("Flatten", {pooled}), 8, 3));
  const NoiseOptions leaves{.kind = NoiseKind::leaves, .count = 3, .seed = 4};
  const at::Tensor made =
      distill_images(graph, {.count = 3, .batch = 2, .steps = 2, .start = leaves, .seed = 4}).inputs.at(0);
  ASSERT_EQ(made.size(0), 6);
  const at::Tensor began = noise_inputs(graph, leaves).at(0);
  EXPECT_TRUE(at::equal(made.slice(0, 3), began));
  EXPECT_GT((made.slice(0, 0, 3) - began).abs().max().item<double>(), 0.01);
}

TEST(DistillImages, AreTheSameByAnyNumberOfThreads) {
  TestGraph g(3);
  const auto a = g.relu(g.batch_norm(g.conv(g.input("x", {-1, 3, 12, 12}), 3, 8), 8));
  const Graph graph = g.finish(g.batch_norm(g.conv(a, 8, 6), 6));
  const auto made = [&](int threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    const DistilledImages images = distill_images(graph, {.count = 10, .batch = 4, .steps = 5});
    at::set_num_threads(before);
    return images.inputs.at(0);
  };
  EXPECT_TRUE(at::equal(made(1), made(3)));
}

// Shapes in front of one another: neighbouring pixels are mostly alike, and where they are not the step is large, which
// no Gaussian noise of the same spectrum has.
TEST(Leaves, HaveFlatAreasAndEdges) {
  const at::Tensor images = leaf_images(8, 3, 64, 48, 7);
  EXPECT_EQ(images.sizes(), (std::vector<int64_t>{8, 3, 64, 48}));
  EXPECT_NEAR(images.mean().item<double>(), 0, 1e-4);
  EXPECT_NEAR(images.std(false).item<double>(), 1, 1e-3);
  const auto kurtosis = [](const at::Tensor& x) {
    const at::Tensor step = (x.narrow(3, 1, x.size(3) - 1) - x.narrow(3, 0, x.size(3) - 1)).to(at::kDouble);
    return (step.pow(4).mean() / step.square().mean().square()).item<double>();
  };
  EXPECT_GT(kurtosis(images), 8);
  EXPECT_LT(kurtosis(noise_images(3, 64, 48, {.count = 8, .seed = 7})), 4);
  EXPECT_TRUE(at::equal(images, leaf_images(8, 3, 64, 48, 7)));
  EXPECT_FALSE(at::equal(images, leaf_images(8, 3, 64, 48, 8)));
  // One image does not depend on how many are made, but for the scale of all.
  const at::Tensor one = leaf_images(1, 3, 64, 48, 7)[0], same = images[0];
  const at::Tensor scaled = (same - same.mean()) / same.std(false) - (one - one.mean()) / one.std(false);
  EXPECT_LT(scaled.abs().max().item<double>(), 1e-4);
}

TEST(DistillImages, WithNothingToDistilFromIsNoise) {
  TestGraph g;
  const Graph graph = g.finish(g.relu(g.conv(g.input("x", {-1, 3, 8, 8}), 3, 4)));
  const DistilledImages made = distill_images(graph, {.count = 4});
  EXPECT_EQ(made.source, "");
  EXPECT_TRUE(at::equal(made.inputs.at(0), noise_inputs(graph, {.count = 4}).at(0)));
}

}  // namespace
}  // namespace pare
