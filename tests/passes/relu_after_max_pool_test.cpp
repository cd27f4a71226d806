#include "pare/passes/relu_after_max_pool.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/run.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

// Values and gradients, also where a window is negative throughout or has ties.
TEST(ReluAfterMaxPool, ChangesNoBit) {
  const Graph before = build("lenet-5", {}, 3);
  const Graph after = relu_after_max_pool(before);
  int64_t swapped = 0;
  for (size_t n = 0; n < before.nodes.size(); ++n) swapped += before.nodes[n].op != after.nodes[n].op ? 1 : 0;
  EXPECT_EQ(swapped, 4);
  const auto gradients = [](const Graph& graph) {
    auto input = random_inputs(graph, 3, 5)[0];
    input.narrow(2, 0, 14).zero_();
    TensorMap parameters;
    for (const auto& [name, tensor] : graph.tensors)
      parameters[name] = at::isFloatingType(tensor.scalar_type()) ? tensor.clone().requires_grad_() : tensor;
    const auto out = forward(graph, {&input, 1}, {.training = true, .parameters = &parameters}).outputs[0];
    out.pow(2).sum().backward();
    TensorMap result = {{"out", out.detach()}};
    for (const auto& [name, tensor] : parameters)
      if (tensor.grad().defined()) result[name] = tensor.grad();
    return result;
  };
  const TensorMap a = gradients(before);
  const TensorMap b = gradients(after);
  ASSERT_EQ(a.size(), b.size());
  ASSERT_GT(a.size(), 8);
  for (const auto& [name, tensor] : a) EXPECT_TRUE(tensor.equal(b.at(name))) << name;
}

TEST(ReluAfterMaxPool, LeavesWhatIsLookedAt) {
  const Graph before = build("lenet-5", {}, 3);
  const std::string looked_at = before.nodes[1].outputs[0];
  ASSERT_EQ(before.nodes[1].op, "Relu");
  const Graph after = relu_after_max_pool(before, {looked_at});
  EXPECT_EQ(after.nodes[1].op, "Relu");
  EXPECT_EQ(after.nodes[4].op, "MaxPool");
}

}  // namespace
}  // namespace pare
