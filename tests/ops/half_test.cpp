// Half precision in operators for which ATen has no kernel: computed in float, given back in the type of the file.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "ops/node_testing.h"

namespace pare {
namespace {

using namespace testing;

struct Case {
  std::string op;
  Tensors inputs;
  Attributes attributes = {};
};

std::vector<Case> cases() {
  at::manual_seed(1);
  const at::Tensor x = at::randn({2, 4, 6, 6}), w = at::randn({4, 4, 3, 3}), c = at::rand({4}) + 0.5;
  const at::Tensor m = at::randn({3, 4}), q = at::randn({1, 2, 3, 4});
  return {{"Conv", {x, w, c}},
          {"ConvTranspose", {x, w}},
          {"Gemm", {m, at::randn({4, 5}), at::randn({5})}},
          {"MatMul", {m, at::randn({4, 5})}},
          {"Relu", {x}},
          {"Mish", {x}},
          {"Softmax", {m}},
          {"BatchNormalization", {x, c, c, c, c}},
          {"LayerNormalization", {m, c, c}},
          {"RMSNormalization", {m, c}},
          {"MaxPool", {x}, {{"kernel_shape", Ints{2, 2}}}},
          {"AveragePool", {x}, {{"kernel_shape", Ints{2, 2}}}},
          {"Add", {x, x}},
          {"Resize", {x, {}, reals({1, 1, 2, 2})}, {{"mode", text("linear")}}},
          {"Einsum", {m, at::randn({4, 5})}, {{"equation", text("ij,jk->ik")}}},
          {"Attention", {q, q, q}},
          {"LSTM", {at::randn({3, 2, 4}), at::randn({1, 8, 4}), at::randn({1, 8, 2})}}};
}

TEST(HalfPrecision, IsComputedInFloat) {
  for (const auto& [op, inputs, attributes] : cases())
    for (const auto dtype : {at::kHalf, at::kBFloat16}) {
      Tensors half = inputs, wide = inputs;
      for (size_t i = 0; i < half.size(); ++i) {
        if (!half[i].defined() || (op == "Resize" && i > 0)) continue;
        half[i] = inputs[i].to(dtype);
        wide[i] = half[i].to(at::kFloat);
      }
      const Node node = make_node(op, inputs, attributes);
      const at::Tensor found = evaluate(require_op(node), {.node = node, .inputs = half})[0];
      const at::Tensor expected = evaluate(require_op(node), {.node = node, .inputs = wide})[0];
      EXPECT_EQ(found.scalar_type(), dtype) << op;
      EXPECT_TRUE(found.equal(expected.to(dtype))) << op;
    }
}

TEST(HalfPrecision, DataMovesAsItIs) {
  const at::Tensor x = at::randn({2, 3}).to(at::kHalf);
  const Node node = make_node("Transpose", {x}, {{"perm", Ints{1, 0}}});
  EXPECT_TRUE(evaluate(require_op(node), {.node = node, .inputs = std::vector{x}})[0].equal(x.t()));
  const Node bits = make_node("BitCast", {x}, {{"to", integer(5)}});
  const at::Tensor read = evaluate(require_op(bits), {.node = bits, .inputs = std::vector{x}})[0];
  EXPECT_TRUE(read.view(at::kHalf).equal(x));
}

}  // namespace
}  // namespace pare
