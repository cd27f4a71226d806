// A run in steps is the run, each node once; and repairs by it are those that run everything before a layer anew.
#include "pare/fuse/stepwise_run.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/fuse/average.h"
#include "pare/fuse/repair.h"
#include "pare/run.h"
#include "pare/zoo/zoo.h"
#include "support/builder.h"

namespace pare {
namespace {

TEST(StepwiseRun, RunsEveryNodeOnce) {
  const at::NoGradGuard no_grad;
  const Graph net = build("resnet20", {.width = 0.25}, 1);
  const auto samples = random_inputs(net, 120, 3);
  StepwiseRun run(net, samples);
  ASSERT_EQ(run.pieces(), 3);
  for (size_t n = 0; n < net.nodes.size(); ++n) {
    if (net.nodes[n].op != "Conv") continue;
    run.advance_to(n);
    for (size_t p = 0; p < 3; ++p) {
      RunOptions options;
      options.taps = {net.nodes[n].inputs[0], net.nodes[n].outputs[0]};
      const auto piece = samples[0].slice(0, static_cast<int64_t>(p) * 50, static_cast<int64_t>(p) * 50 + 50);
      if (n == 0) continue;
      const TensorMap tapped = forward(net, {{piece}}, options).tapped;
      EXPECT_TRUE(at::equal(run.value(p, net.nodes[n].inputs[0]), tapped.at(net.nodes[n].inputs[0])));
      EXPECT_TRUE(at::equal(run.next_output(p), tapped.at(net.nodes[n].outputs[0])));
    }
  }
  int64_t convolutions = 0;
  for (const Node& node : net.nodes) convolutions += node.op == "Conv" ? 1 : 0;
  EXPECT_LE(run.nodes_run(), 3 * (static_cast<int64_t>(net.nodes.size()) + convolutions));
}

// Where values of all pieces are not kept, a piece runs again: the same numbers.
TEST(StepwiseRun, WithoutMemoryGivesTheSame) {
  const at::NoGradGuard no_grad;
  const Graph net = build("resnet20", {.width = 0.25}, 1);
  const auto samples = random_inputs(net, 120, 3);
  for (const int64_t memory : {int64_t{0}, int64_t{2'000'000}}) {
    StepwiseRun run(net, samples), bounded(net, samples, memory);
    for (size_t n = 1; n < net.nodes.size(); ++n) {
      if (net.nodes[n].op != "Conv") continue;
      run.advance_to(n);
      bounded.advance_to(n);
      for (size_t p = 0; p < 3; ++p) {
        EXPECT_TRUE(at::equal(run.value(p, net.nodes[n].inputs[0]), bounded.value(p, net.nodes[n].inputs[0])));
        EXPECT_TRUE(at::equal(run.next_output(p), bounded.next_output(p)));
      }
    }
    EXPECT_GT(bounded.nodes_run(), run.nodes_run());
  }
}

// Rescaling, written slowly: before each layer the whole network runs again.
TEST(Repair, RescalesAsIfEverythingRanAgain) {
  const at::NoGradGuard no_grad;
  const std::vector<Graph> parents = {build("convnet", {.width = 0.5}, 1), build("convnet", {.width = 0.5}, 2)};
  const std::vector<double> shares = {0.3, 0.7};
  const Graph average = weighted_average(parents, shares, 0);
  const auto samples = random_inputs(average, 70, 3);
  const Graph found = rescale(average, {parents, shares}, samples);

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

}  // namespace
}  // namespace pare
