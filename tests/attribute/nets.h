// Small networks in double precision for the tests of attribution.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "pare/attribute/explained.h"
#include "pare/attribute/walk.h"
#include "pare/explain.h"
#include "pare/run.h"
#include "support/builder.h"

namespace pare {

struct NetOptions {
  bool bias = false;
  bool batch_norm = false;
  double leak = 0;  // above 0: LeakyReLU, so that inner layers read signed values
  int64_t channels = 3;
  uint64_t seed = 1;
};

// conv3x3 - ReLU - maxpool - conv3x3 - ReLU - maxpool - flatten - linear of 5 classes, for inputs [N, channels, 8, 8].
inline Graph plain_net(const NetOptions& o = {}) {
  TestGraph g(o.seed);
  using Ints = std::vector<int64_t>;
  const auto conv = [&](const std::string& x, int64_t in, int64_t out) {
    std::vector<std::string> inputs = {x, g.random({out, in, 3, 3})};
    if (o.bias) inputs.push_back(g.random({out}));
    std::string y = g.node("Conv", inputs, {{"pads", Ints{1, 1, 1, 1}}});
    if (o.batch_norm) {
      const std::string scale = g.tensor(at::randn({out}, at::kDouble));  // of both signs
      y = g.node("BatchNormalization", {y, scale, g.random({out}), g.random({out}), g.positive({out})});
    }
    return o.leak > 0 ? g.node("LeakyRelu", {y}, {{"alpha", o.leak}}) : g.relu(y);
  };
  const auto pool = [&](const std::string& x) {
    return g.node("MaxPool", {x}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  };
  std::string x = g.input("x", {-1, o.channels, 8, 8});
  x = pool(conv(x, o.channels, 8));
  x = pool(conv(x, 8, 6));
  x = g.node("Flatten", {x});
  std::vector<std::string> head = {x, g.random({5, 24})};
  if (o.bias) head.push_back(g.random({5}));
  return g.finish(g.node("Gemm", head, {{"transB", int64_t{1}}}));
}

inline std::string pooled(TestGraph& g, const std::string& x) {
  return g.node("Flatten", {g.node("GlobalAveragePool", {x})});
}

// A residual connection, a concatenation, an average pool and global averaging; only the last layer may have a bias.
// Inputs [N, 3, 8, 8].
inline Graph branching_net(uint64_t seed = 2, bool bias = false) {
  TestGraph g(seed);
  using Ints = std::vector<int64_t>;
  const auto conv = [&](const std::string& x, int64_t in, int64_t out) {
    return g.node("Conv", {x, g.random({out, in, 3, 3})}, {{"pads", Ints{1, 1, 1, 1}}});
  };
  const std::string x = g.relu(conv(g.input("x", {-1, 3, 8, 8}), 3, 4));
  const std::string sum = g.relu(g.node("Add", {conv(g.relu(conv(x, 4, 4)), 4, 4), x}));
  const std::string both = g.node("Concat", {sum, g.relu(conv(sum, 4, 3))}, {{"axis", int64_t{1}}});
  const std::string pooled = g.node("AveragePool", {both}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  const std::string last = g.relu(conv(pooled, 7, 6));
  const std::string flat = g.node("Flatten", {g.node("GlobalAveragePool", {last})});
  std::vector<std::string> head = {flat, g.random({5, 6})};
  if (bias) head.push_back(g.random({5}));
  return g.finish(g.node("Gemm", head, {{"transB", int64_t{1}}}));
}

inline at::Tensor images(int64_t count, int64_t channels = 3, uint64_t seed = 7) {
  at::manual_seed(seed);
  return at::randn({count, channels, 8, 8}, at::kDouble);
}

inline at::Tensor scores_of(const Graph& graph, const at::Tensor& x) { return forward(graph, {&x, 1}).outputs[0]; }

// Every value of a run, for walks.
inline TensorMap values_of(const Graph& graph, const at::Tensor& x) {
  RunOptions options;
  for (const auto& node : graph.nodes)
    options.taps.insert(options.taps.end(), node.outputs.begin(), node.outputs.end());
  TensorMap values = forward(graph, {&x, 1}, options).tapped;
  values[graph.inputs[0].name] = x;
  return values;
}

inline at::Tensor one_hot(const at::Tensor& scores, const at::Tensor& classes) {
  return at::zeros_like(scores).scatter(1, classes.unsqueeze(1), 1.0);
}

inline double largest(const at::Tensor& t) { return t.abs().max().item<double>(); }

inline at::Tensor sums(const at::Tensor& t) { return t.flatten(1).sum(1); }

}  // namespace pare
