// Operators write into what nobody needs any more. A run whose every value is tapped cannot do that: both must agree.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/run.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

TensorMap gradients(const Graph& graph, bool tapped) {
  const auto input = random_inputs(graph, 4, 5)[0];
  TensorMap parameters;
  for (const auto& [name, tensor] : graph.tensors)
    parameters[name] = at::isFloatingType(tensor.scalar_type()) && name.find("running") == std::string::npos
                           ? tensor.clone().requires_grad_()
                           : tensor;
  RunOptions options{.training = true, .parameters = &parameters};
  if (tapped)
    for (const auto& node : graph.nodes) options.taps.push_back(node.outputs[0]);
  const RunResult result = Program(graph).run({&input, 1}, options);
  result.outputs[0].pow(2).sum().backward();
  TensorMap found = {{"output", result.outputs[0].detach()}};
  for (const auto& [name, tensor] : parameters)
    if (tensor.grad().defined()) found[name] = tensor.grad();
  return found;
}

TEST(InPlace, ChangesNoGradient) {
  for (const char* arch : {"resnet20", "vgg9-bn", "mobilenetv1"}) {
    const Graph graph = cast(build(arch, {.width = 0.25, .input = {3, 32, 32}}, 1), at::kDouble);
    const TensorMap kept = gradients(graph, true);
    const TensorMap overwritten = gradients(graph, false);
    ASSERT_EQ(kept.size(), overwritten.size()) << arch;
    ASSERT_GT(kept.size(), 10) << arch;
    for (const auto& [name, tensor] : kept)
      EXPECT_LT((tensor - overwritten.at(name)).abs().max().item<double>(),
                1e-12 * (1 + tensor.abs().max().item<double>()))
          << arch << " " << name;
  }
}

}  // namespace
}  // namespace pare
