// Repairs against the same written slowly: everything before a layer runs anew for it.
#include "pare/fuse/repair.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/calibrate/ridge.h"
#include "pare/core/memory.h"
#include "pare/fuse/average.h"
#include "pare/run.h"
#include "pare/zoo/zoo.h"
#include "support/builder.h"

namespace pare {
namespace {

// Rescaling, written slowly: before each layer the whole network runs again.
TEST(Repair, RescalesAsIfEverythingRanAgain) {
  const at::NoGradGuard no_grad;
  const std::vector<Graph> parents = {build("convnet", {.width = 0.5}, 1), build("convnet", {.width = 0.5}, 2)};
  const std::vector<double> shares = {0.3, 0.7};
  const Graph average = weighted_average(parents, shares, 0);
  const auto samples = random_inputs(average, 70, 3);
  const Graph found = rescale(average, {parents, shares}, samples_of(samples));

  const auto statistics = [&](const Graph& graph, const std::string& value) {
    RunOptions options;
    options.taps = {value};
    const at::Tensor y = forward(graph, samples, options).tapped.at(value).to(at::kDouble);
    const at::Tensor rows = y.dim() == 4 ? y.movedim(1, 0).flatten(1) : y.t();
    return std::pair{rows.mean(1), rows.std(1, /*unbiased=*/false)};
  };
  Graph slow = found;  // has the biases that rescaling adds
  for (const Node& node : slow.nodes) {
    if (node.op != "Conv" && node.op != "Gemm") continue;
    slow.tensors[node.inputs[1]] = average.tensor(node.inputs[1]);
    const auto own = average.tensors.find(node.inputs[2]);
    slow.tensors[node.inputs[2]] =
        own != average.tensors.end() ? own->second : at::zeros_like(found.tensor(node.inputs[2]));
  }
  for (const Node& node : slow.nodes) {
    if ((node.op != "Conv" && node.op != "Gemm") || node.outputs[0] == slow.outputs[0].name) continue;
    const auto [mean, deviation] = statistics(slow, node.outputs[0]);
    at::Tensor wanted_mean = at::zeros_like(mean);
    at::Tensor wanted = at::zeros_like(mean);
    for (size_t k = 0; k < parents.size(); ++k) {
      const auto [m, s] = statistics(parents[k], node.outputs[0]);
      wanted_mean += shares[k] * m;
      wanted += shares[k] * s;
    }
    const at::Tensor scale = at::where(deviation > 0, wanted / deviation, at::ones_like(deviation));
    const at::Tensor weight = slow.tensor(node.inputs[1]).to(at::kDouble);
    std::vector<int64_t> per_row(static_cast<size_t>(weight.dim()), 1);
    per_row[0] = -1;
    const at::Tensor bias = wanted_mean + scale * (slow.tensor(node.inputs[2]).to(at::kDouble) - mean);
    slow.tensors[node.inputs[1]] = (weight * scale.reshape(per_row)).to(at::kFloat);
    slow.tensors[node.inputs[2]] = bias.to(at::kFloat);
  }
  for (const auto& [name, tensor] : slow.tensors)
    if (tensor.is_floating_point()) {
      EXPECT_LE((found.tensor(name) - tensor).abs().max().item<double>(),
                1e-4 * std::max(1.0, tensor.abs().max().item<double>()))
          << name;
    }
}

// The formula at every layer, on what the network as repaired so far gives it.
TEST(Repair, RegressesAsIfEverythingRanAgain) {
  const at::NoGradGuard no_grad;
  const std::vector<Graph> parents = {build("convnet", {.width = 0.25}, 1), build("convnet", {.width = 0.25}, 2)};
  const std::vector<double> shares = {0.3, 0.7};
  const Graph average = weighted_average(parents, shares, 0);
  const auto samples = random_inputs(average, 50, 3);
  const double rho = 0.1;
  const Graph found = regress(average, {parents, shares}, samples_of(samples), rho);

  const auto tapped = [&](const Graph& graph, const std::string& value) {
    if (value == graph.inputs[0].name) return samples[0].to(at::kDouble);
    RunOptions options;
    options.taps = {value};
    return forward(graph, samples, options).tapped.at(value).to(at::kDouble);
  };
  Graph slow = found;  // has the biases that regression adds
  for (const Node& node : slow.nodes) {
    if (node.op != "Conv" && node.op != "Gemm") continue;
    slow.tensors[node.inputs[1]] = average.tensor(node.inputs[1]);
    const auto own = average.tensors.find(node.inputs[2]);
    slow.tensors[node.inputs[2]] =
        own != average.tensors.end() ? own->second : at::zeros_like(found.tensor(node.inputs[2]));
  }
  for (const Node& node : slow.nodes) {
    if (node.op != "Conv" && node.op != "Gemm") continue;
    at::Tensor Z = 0.3 * tapped(parents[0], node.outputs[0]) + 0.7 * tapped(parents[1], node.outputs[0]);
    at::Tensor U = tapped(slow, node.inputs[0]);
    const at::Tensor W = slow.tensor(node.inputs[1]).to(at::kDouble);
    if (node.op == "Conv") {
      const auto pads = node.integers("pads", {0, 0, 0, 0});
      U = at::im2col(U, W.sizes().slice(2), {1, 1}, {pads[0], pads[1]}, node.integers("strides", {1, 1}));
      U = U.transpose(1, 2).flatten(0, 1);
      Z = Z.flatten(2).transpose(1, 2).flatten(0, 1);
    }
    U = at::cat({U, at::ones({U.size(0), 1}, at::kDouble)}, 1);
    const at::Tensor b = slow.tensor(node.inputs[2]).to(at::kDouble).unsqueeze(1);
    const at::Tensor prior = at::cat({W.flatten(1), b}, 1);
    const double n = static_cast<double>(U.size(0));
    const at::Tensor fitted = ridge_towards(at::mm(U.t(), U) / n, at::mm(U.t(), Z) / n, rho, prior);
    slow.tensors[node.inputs[1]] = fitted.slice(1, 0, -1).reshape(W.sizes()).to(at::kFloat);
    slow.tensors[node.inputs[2]] = fitted.select(1, prior.size(1) - 1).to(at::kFloat);
  }
  for (const auto& [name, tensor] : slow.tensors)
    if (tensor.is_floating_point()) {
      EXPECT_LE((found.tensor(name) - tensor).abs().max().item<double>(),
                1e-4 * std::max(1.0, tensor.abs().max().item<double>()))
          << name;
    }
}

// What all samples give would take several times the limit: only some of it is held at once.
TEST(Repair, RunsThroughManySamplesInLittleMemory) {
  const std::vector<Graph> nets = {build("convnet", {.width = 0.25}, 1), build("convnet", {.width = 0.25}, 2)};
  const std::vector<double> shares = {0.5, 0.5};
  const Graph average = weighted_average(nets, shares, 0);
  const Samples samples = samples_of(random_inputs(average, 3000, 3));
  const auto within = [&](int64_t memory) {
    set_memory_limit(40 << 20);
    const Parents parents{.networks = nets, .shares = shares, .memory = memory};
    for (const auto& repaired : {regress(average, parents, samples, 0.03), rescale(average, parents, samples)})
      EXPECT_EQ(repaired.nodes.size(), average.nodes.size());
  };
  EXPECT_NO_THROW(within(8 << 20));
  EXPECT_ANY_THROW(within(int64_t{1} << 30));
  set_memory_limit(0);
}

}  // namespace
}  // namespace pare
