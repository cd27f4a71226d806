// Agreement with another model, against the formulas on whole tensors.
#include "pare/metrics/agreement.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "pare/error.h"
#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

// Two inputs; scores [N, 5] and a map [N, 4, 6, 6].
Graph two_headed(unsigned seed) {
  TestGraph g(seed);
  const auto a = g.input("a", {-1, 3, 6, 6}), b = g.input("b", {-1, 8, 6, 6});
  const auto trunk = g.relu(g.node("Add", {g.conv(a, 3, 8), b}));
  const auto map = g.conv(trunk, 8, 4, 1);
  const auto scores = g.node("Flatten", {g.node("GlobalAveragePool", {g.conv(trunk, 8, 5)})});
  Graph graph = g.finish(scores);
  graph.outputs.push_back({.name = map, .dtype = at::kDouble});
  return graph;
}

Samples samples_for(int64_t count) {
  at::manual_seed(4);
  return samples_of({at::randn({count, 3, 6, 6}, at::kDouble), at::randn({count, 8, 6, 6}, at::kDouble)});
}

// The second model is the first with some noise in its weights.
Graph disturbed(Graph graph) {
  at::manual_seed(9);
  for (auto& [name, tensor] : graph.tensors)
    if (tensor.is_floating_point() && tensor.dim() > 1) tensor = tensor + 0.3 * at::randn_like(tensor) * tensor.std();
  return graph;
}

TEST(Agreement, IsWhatTheFormulasSayOfSeveralInputsAndOutputs) {
  const Graph reference = two_headed(3), other = disturbed(reference);
  const Samples samples = samples_for(70);
  const auto inputs = samples.inputs(0, 70);
  const auto z = forward(reference, inputs).outputs, w = forward(other, inputs).outputs;
  const Agreement found = agreement(reference, other, samples);
  ASSERT_EQ(found.outputs.size(), 2U);
  for (size_t o = 0; o < 2; ++o) {
    const at::Tensor a = z[o].flatten(1), b = w[o].flatten(1);
    const at::Tensor length = a.norm(2, {1}), theirs = b.norm(2, {1});
    EXPECT_NEAR(found.outputs[o].distance, ((b - a).norm(2, {1}) / length).mean().item<double>(), 1e-9);
    EXPECT_NEAR(found.outputs[o].cosine, ((a * b).sum(1) / (length * theirs)).mean().item<double>(), 1e-9);
    EXPECT_NEAR(found.outputs[o].largest, (b - a).abs().max().item<double>(), 1e-9);
    EXPECT_NEAR(found.outputs[o].classes, (z[o].argmax(1) == w[o].argmax(1)).to(at::kDouble).mean().item<double>(),
                1e-9);
  }
  const MetricList metrics = metrics_of(found);
  EXPECT_NEAR(metric_of(metrics, "cosine"), (found.outputs[0].cosine + found.outputs[1].cosine) / 2, 1e-12);
  EXPECT_EQ(metric_of(metrics, "max-difference"), std::max(found.outputs[0].largest, found.outputs[1].largest));
  EXPECT_TRUE(std::isnan(metric_of(metrics, "boxes"))) << "without a decoder";
}

TEST(Agreement, OfAModelWithItselfIsWhole) {
  const Graph graph = two_headed(5);
  for (const auto& [name, value] : metrics_of(agreement(graph, graph, samples_for(9))))
    EXPECT_NEAR(value, name == "cosine" || name == "argmax" ? 1 : 0, 1e-12) << name;
}

TEST(Agreement, DoesNotDependOnThreads) {
  const Graph reference = two_headed(3), other = disturbed(reference);
  const int threads = at::get_num_threads();
  std::vector<MetricList> found;
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    found.push_back(metrics_of(agreement(reference, other, samples_for(200))));
  }
  at::set_num_threads(threads);
  EXPECT_EQ(found[0], found[1]);
}

TEST(Agreement, OutputsOfAnotherShapeAgreeInNothing) {
  AgreementSums sums;
  sums.add(at::ones({2, 3}), at::ones({2, 4}), 2);
  const OutputAgreement mean = sums.mean("out");
  EXPECT_EQ(mean.distance, 1);
  EXPECT_EQ(mean.cosine, 0);
  EXPECT_EQ(mean.classes, 0);
  EXPECT_TRUE(std::isinf(mean.largest));
  TestGraph g(1);
  const Graph one = g.finish(g.conv(g.input("a", {-1, 3, 6, 6}), 3, 4));
  EXPECT_THROW(agreement(two_headed(3), one, samples_for(2)), Error);
}

TEST(Agreement, IntegersAreEqualOrNot) {
  AgreementSums sums;
  sums.add(at::tensor({1, 2, 3, 4}, at::kLong), at::tensor({1, 2, 0, 4}, at::kLong), 4);
  EXPECT_DOUBLE_EQ(sums.mean("out").classes, 0.75);
  EXPECT_DOUBLE_EQ(sums.mean("out").largest, 3);
  EXPECT_TRUE(std::isnan(sums.mean("out").cosine));
}

TEST(Agreement, PairsBoxesFromTheLargestOverlapDown) {
  const at::Tensor a =
      at::tensor({0., 0., 10., 10., 0.9, 0., 20., 0., 30., 10., 0.8, 0., 0., 0., 10., 10., 0.3, 0.}).view({3, 6});
  const at::Tensor b =
      at::tensor({1., 0., 11., 10., 0.9, 0., 0., 0., 10., 10., 0.9, 0., 20., 0., 30., 10., 0.9, 1.}).view({3, 6});
  BoxPairs pairs;
  pairs.add(a, b, 0.5, 0.5);
  EXPECT_EQ(pairs.reference, 2) << "the third is not sure enough";
  EXPECT_EQ(pairs.other, 3);
  EXPECT_EQ(pairs.pairs, 1) << "one box has one partner, and classes have to be the same";
  EXPECT_DOUBLE_EQ(pairs.overlap, 1) << "the exact one, not the first";
}

}  // namespace
}  // namespace pare
