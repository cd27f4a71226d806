// Networks as integers: near the original, in the form that runtimes fuse, and defined for odd ones.
#include "pare/quantize/network.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <span>

#include "pare/error.h"
#include "pare/io.h"
#include "pare/passes/for_inference.h"
#include "pare/passes/simplify.h"
#include "pare/quantize/plan.h"
#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

using testing::HasSubstr;
using Ints = std::vector<int64_t>;

// Conv+BN+Relu, depthwise+Clip, 1×1 with a shortcut, a join, pooling and a classifier.
Graph network(uint64_t seed = 5) {
  TestGraph g(seed);
  const auto zero = g.tensor(at::scalar_tensor(0.0, at::kDouble)), six = g.tensor(at::scalar_tensor(6.0, at::kDouble));
  const auto x = g.input("x", {-1, 3, 12, 12});
  const auto a = g.relu(g.batch_norm(g.conv(x, 3, 8), 8));
  const auto d = g.node("Clip", {g.conv(a, 8, 8, 3, 8), zero, six});
  const auto sum = g.node("Add", {g.conv(d, 8, 8, 1), a});
  const auto pooled = g.node("MaxPool", {sum}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  const auto joined =
      g.node("Concat", {g.relu(g.conv(pooled, 8, 6, 1)), g.relu(g.conv(pooled, 8, 4))}, {{"axis", int64_t{1}}});
  const auto flat = g.node("Flatten", {g.node("GlobalAveragePool", {joined})});
  return cast(g.finish(g.linear(flat, 10, 5)), at::kFloat);
}

Samples some(const Graph& graph, int64_t count, uint64_t seed) { return samples_of(random_inputs(graph, count, seed)); }

QuantizedNetwork quantized(const Graph& graph, const QuantizeOptions& options, int64_t count = 64) {
  Observer nobody;
  const Samples samples = some(graph, count, 3);
  return quantize_network(graph, samples, samples, options, nobody);
}

double distance(const Graph& a, const Graph& b) {
  const at::NoGradGuard no_grad;
  const auto inputs = random_inputs(a, 40, 77);
  const at::Tensor y = forward(a, inputs).outputs[0], z = forward(b, inputs).outputs[0];
  return ((y - z).norm() / y.norm()).item<double>();
}

TEST(QuantizedNetwork, StaysNearTheOriginalInEveryWay) {
  const Graph graph = network();
  for (const auto range : {RangeMethod::minmax, RangeMethod::percentile, RangeMethod::entropy, RangeMethod::mse})
    for (const auto repair : {RoundingRepair::none, RoundingRepair::bias, RoundingRepair::obs})
      for (const auto activations : {ActivationBits::int8, ActivationBits::symmetric, ActivationBits::none}) {
        const QuantizedNetwork found =
            quantized(graph, {.activations = activations, .range = range, .compensate = repair});
        const double far = distance(graph, found.graph);
        EXPECT_LT(far, range == RangeMethod::entropy ? 0.15 : 0.05)
            << name_of(range) << " " << name_of(repair) << " " << name_of(activations);
        EXPECT_GT(far, 0);
      }
}

TEST(QuantizedNetwork, WeightsAreIntegersWithAScaleForEachOutput) {
  const QuantizedNetwork found = quantized(network(), {});
  int64_t layers = 0;
  for (const auto& node : found.graph.nodes) {
    if (node.op != "Conv" && node.op != "Gemm") continue;
    ++layers;
    const auto made = [&](size_t input) {
      const Usage usage = usage_of(found.graph);
      return found.graph.nodes[usage.producer.at(node.inputs[input])];
    };
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(made(i).op, "DequantizeLinear") << describe(node) << " " << i;
    const at::Tensor& codes = found.graph.tensor(made(1).inputs[0]);
    EXPECT_EQ(codes.scalar_type(), at::kChar);
    EXPECT_EQ(found.graph.tensor(made(1).inputs[1]).numel(), codes.size(0));
    EXPECT_GE(codes.to(at::kInt).min().item<int>(), -127);
    const at::Tensor& bias = found.graph.tensor(made(2).inputs[0]);
    EXPECT_EQ(bias.scalar_type(), at::kInt);
    const at::Tensor product = found.graph.tensor(made(1).inputs[1]) * found.graph.tensor(made(0).inputs[1]);
    EXPECT_TRUE(product.equal(found.graph.tensor(made(2).inputs[1])));
  }
  EXPECT_EQ(layers, 6);
}

// Runtimes replace DequantizeLinear → operator [→ Relu] → QuantizeLinear: what reads floats else is the last layer
// alone.
TEST(QuantizedNetwork, IntegersGoFromLayerToLayer) {
  const QuantizedNetwork found = quantized(network(), {});
  const Usage usage = usage_of(found.graph);
  for (const auto& node : found.graph.nodes) {
    if (node.op != "Conv" && node.op != "Add" && node.op != "Concat" && node.op != "MaxPool" &&
        node.op != "GlobalAveragePool")
      continue;
    for (const auto& input : node.inputs)
      EXPECT_EQ(found.graph.nodes[usage.producer.at(input)].op, "DequantizeLinear") << describe(node);
    const auto& readers = usage.consumers.at(node.outputs[0]);
    ASSERT_EQ(readers.size(), 1u) << describe(node);
    const Node* reader = &found.graph.nodes[readers[0]];
    if (reader->op == "Relu" || reader->op == "Clip")
      reader = &found.graph.nodes[usage.consumers.at(reader->outputs[0]).at(0)];
    EXPECT_EQ(reader->op, "QuantizeLinear") << describe(node);
  }
  EXPECT_EQ(found.graph.nodes.back().op, "Gemm");
}

TEST(QuantizedNetwork, WhatOnlyMovesElementsKeepsTheirScale) {
  const QuantizedNetwork found = quantized(network(), {});
  const Usage usage = usage_of(found.graph);
  for (const auto& node : found.graph.nodes) {
    if (node.op != "MaxPool" && node.op != "Flatten") continue;
    const Node& before = found.graph.nodes[usage.producer.at(node.inputs[0])];
    const Node& after = found.graph.nodes[usage.consumers.at(node.outputs[0]).at(0)];
    EXPECT_EQ(before.inputs[1], after.inputs[1]) << describe(node);
    EXPECT_EQ(before.inputs[2], after.inputs[2]);
  }
}

TEST(QuantizedNetwork, CompensationBringsFourBitWeightsNearer) {
  double plain = 0, repaired = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const Graph graph = network(seed);
    const QuantizeOptions options{.weights = WeightBits::int4, .activations = ActivationBits::none};
    QuantizeOptions none = options;
    none.compensate = RoundingRepair::none;
    plain += distance(graph, quantized(graph, none, 200).graph);
    repaired += distance(graph, quantized(graph, options, 200).graph);
  }
  EXPECT_LT(repaired, 0.9 * plain);
}

TEST(QuantizedNetwork, FourBitsAreWrittenAndReadBack) {
  TestGraph g(9);
  const auto x = g.input("x", {-1, 40});
  const Graph graph = cast(g.finish(g.linear(g.relu(g.linear(x, 40, 33)), 33, 7)), at::kFloat);
  for (const int64_t block : {0, 16}) {
    const Graph small =
        quantized(graph, {.weights = WeightBits::int4, .activations = ActivationBits::none, .block = block}).graph;
    const int64_t floats = static_cast<int64_t>(to_onnx(graph).size());
    const std::string bytes = to_onnx(small);
    const Graph back = simplify(from_onnx(std::as_bytes(std::span(bytes))));
    EXPECT_LT(static_cast<int64_t>(bytes.size()), floats / 2);
    EXPECT_EQ(to_onnx(back).size(), bytes.size());
    const auto inputs = random_inputs(graph, 4, 1);
    EXPECT_TRUE(forward(small, inputs).outputs[0].equal(forward(back, inputs).outputs[0]));
  }
}

TEST(QuantizedNetwork, StaysIntegersWhenReadAndWrittenAgain) {
  const Graph found = quantized(network(), {}).graph;
  const std::string bytes = to_onnx(found);
  const Graph back = simplify(from_onnx(std::as_bytes(std::span(bytes))));
  EXPECT_EQ(back.nodes.size(), found.nodes.size());
  EXPECT_NEAR(static_cast<double>(to_onnx(back).size()), static_cast<double>(bytes.size()),
              0.02 * static_cast<double>(bytes.size()));
  EXPECT_EQ(distance(found, back), 0);
  EXPECT_LT(distance(found, for_inference(back)), 1e-3);
}

TEST(QuantizedNetwork, ADeadChannelWithABiasKeepsItsBias) {
  Graph graph = network();
  const Node& conv = graph.nodes[0];
  at::Tensor weight = graph.tensor(conv.inputs[1]).clone();
  weight[2].zero_();
  weight[3].mul_(1e-20);  // what training leaves of a channel that is dead
  graph.tensors[conv.inputs[1]] = weight;
  const QuantizedNetwork found = quantized(graph, {});
  EXPECT_LT(distance(graph, found.graph), 0.05);
  for (const auto& [name, tensor] : found.graph.tensors)
    if (tensor.is_floating_point()) {
      EXPECT_TRUE(at::isfinite(tensor).all().item<bool>()) << name;
    }
}

TEST(QuantizedNetwork, ConstantActivationsAreDefined) {
  Graph graph = network();
  const Node& conv = graph.nodes[0];
  graph.tensors[conv.inputs[1]] = at::zeros_like(graph.tensor(conv.inputs[1]));
  const QuantizedNetwork found = quantized(graph, {});
  EXPECT_TRUE(at::isfinite(forward(found.graph, random_inputs(graph, 3, 2)).outputs[0]).all().item<bool>());
}

std::string refusal(const Graph& graph, const QuantizeOptions& options) {
  try {
    quantized(graph, options, 4);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(QuantizedNetwork, RefusesByName) {
  const Graph graph = network();
  EXPECT_THAT(refusal(quantized(graph, {}, 4).graph, {}), HasSubstr("is quantised already"));
  EXPECT_THAT(refusal(graph, {.skip = {"nothing*"}}), HasSubstr("matches no layer"));
  EXPECT_THAT(refusal(graph, {.skip = {"*"}}), HasSubstr("no layer that can be quantised"));
  Graph broken = graph;
  at::Tensor weight = graph.tensor(graph.nodes[0].inputs[1]).clone();
  weight.view(-1)[5] = std::numeric_limits<float>::quiet_NaN();
  broken.tensors[graph.nodes[0].inputs[1]] = weight;
  EXPECT_THAT(refusal(broken, {}), HasSubstr("NaN"));
}

TEST(QuantizedNetwork, LayersCanStayInFloat) {
  const Graph graph = network();
  const QuantizedNetwork found = quantized(graph, {.skip = {"Conv5"}, .keep_first = true, .keep_last = true});
  int64_t left = 0;
  for (const auto& layer : found.layers) left += layer.bits == 32 ? 1 : 0;
  EXPECT_GE(left, 2);
  EXPECT_EQ(found.graph.nodes.back().op, "Gemm");
  EXPECT_TRUE(found.graph.is_constant(found.graph.nodes.back().inputs[1]));
}

TEST(QuantizedNetwork, TheScanRanksLayersByWhatTheyCost) {
  const Graph graph = network();
  Observer nobody;
  const auto layers = scan_layers(graph, some(graph, 32, 3), {.weights = WeightBits::int4}, nobody);
  ASSERT_EQ(layers.size(), 6u);
  for (size_t i = 0; i + 1 < layers.size(); ++i) EXPECT_GE(layers[i].divergence, layers[i + 1].divergence);
  EXPECT_GT(layers[0].divergence, 0);
}

TEST(QuantizedNetwork, TheSameBitsEveryTime) {
  const Graph graph = network();
  EXPECT_TRUE(to_onnx(quantized(graph, {}).graph) == to_onnx(quantized(graph, {}).graph));
}

}  // namespace
}  // namespace pare
