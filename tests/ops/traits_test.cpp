// What operators say of themselves, held against what they compute.
#include "pare/ops/traits.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/ops/op.h"

namespace pare {
namespace {

Node node_of(const OpDef& op) {
  Node node{.name = "n", .op = std::string(op.type), .inputs = {"x"}, .outputs = {"y"}};
  if (op.takes("kernel_shape")) node.attributes["kernel_shape"] = std::vector<int64_t>{2, 2};
  if (op.takes("keepdims")) node.attributes["keepdims"] = int64_t{1};
  return node;
}

// The operator with x [1, 3, 4, 4] as its only input, or with what else it needs; reductions over height and width.
at::Tensor computed(const OpDef& op, const at::Tensor& x) {
  const Node node = node_of(op);
  std::vector<at::Tensor> inputs = {x};
  if (op.takes("noop_with_empty_axes")) inputs.push_back(at::tensor({2, 3}, at::kLong));
  if (op.type == "PRelu") inputs.push_back(at::full({3, 1, 1}, 0.25, x.options()));
  if (op.type == "InstanceNormalization")
    inputs.insert(inputs.end(), {at::ones({3}, x.options()), at::zeros({3}, x.options())});
  return evaluate(op, {.node = node, .inputs = inputs}).at(0);
}

at::Tensor some_input() {
  at::manual_seed(3);
  return at::randn({1, 3, 4, 4}, at::kDouble);
}

void expect_same(const OpDef& op, const at::Tensor& a, const at::Tensor& b) {
  EXPECT_TRUE(at::allclose(a, b, 1e-9, 1e-9)) << op.type;
}

TEST(Traits, LawsHoldForWhateverClaimsOne) {
  const at::Tensor x = some_input();
  int64_t claims = 0;
  for (const OpDef* op : all_ops()) {
    const auto law = op->traits.law;
    if (!law || *law == Law::rigid) continue;
    ++claims;
    const at::Tensor y = computed(*op, x);
    expect_same(*op, computed(*op, 2.5 * x), 2.5 * y);
    if (*law == Law::average || *law == Law::order) expect_same(*op, computed(*op, x + 0.75), y + 0.75);
    if (*law == Law::average || *law == Law::linear) expect_same(*op, computed(*op, -2 * x), -2 * y);
  }
  EXPECT_GE(claims, 14);
}

TEST(Traits, ElementwiseOperatorsLookAtOneElementForEachResult) {
  const at::Tensor x = some_input().abs() * 0.4 + 0.1;
  at::Tensor other = x.flip({0, 1, 2, 3}).contiguous();
  other[0][1][2][3] = x[0][1][2][3];
  int64_t seen = 0;
  for (const OpDef* op : all_ops()) {
    if (!is_elementwise(op->traits.kind) || op->min_inputs > 1 || op->type == "Cast") continue;
    ++seen;
    const at::Tensor y = computed(*op, x);
    ASSERT_EQ(y.sizes(), x.sizes()) << op->type;
    const at::Tensor at_same_place = (computed(*op, other) - y)[0][1][2][3];
    EXPECT_TRUE(at_same_place.isnan().item<bool>() || at_same_place.item<double>() == 0) << op->type;
  }
  EXPECT_GE(seen, 35);
}

TEST(Traits, GatesStayBetweenZeroAndOne) {
  const at::Tensor x = 5 * some_input();
  int64_t seen = 0;
  for (const OpDef* op : all_ops()) {
    if (!op->traits.gate || op->type == "Clip") continue;  // whose bounds are inputs
    ++seen;
    const at::Tensor y = computed(*op, x);
    EXPECT_GE(y.min().item<double>(), 0) << op->type;
    EXPECT_LE(y.max().item<double>(), 1) << op->type;
  }
  EXPECT_EQ(seen, 3);
}

TEST(Traits, LinearOperatorsDescribeTheirWeights) {
  int64_t seen = 0;
  for (const OpDef* op : all_ops()) {
    EXPECT_EQ(op->traits.kind == OpKind::linear, op->traits.linear != nullptr) << op->type;
    if (op->traits.linear == nullptr) continue;
    ++seen;
    EXPECT_TRUE(op->traits.learned.contains(1)) << op->type;
    EXPECT_EQ(op->max_inputs == 3, linear_layer({.op = std::string(op->type), .inputs = {"x", "W"}}, 1, 4)->takes_bias)
        << op->type;
  }
  EXPECT_EQ(seen, 4);
}

// y = W x, with W as its description stores it, is what the operator gives for x with one place.
TEST(Traits, TheAxesOfAWeightAreThoseThatTheOperatorSumsAlong) {
  const at::Tensor W = at::randn({5, 3}, at::kDouble);  // outputs, inputs
  const at::Tensor x = at::randn({3}, at::kDouble);
  const auto check = [&](Node node, size_t weight, int64_t rank) {
    node.outputs = {"y"};
    const auto layer = linear_layer(node, weight, rank);
    ASSERT_TRUE(layer) << node.op;
    at::Tensor stored = layer->out_axis < layer->in_axis ? W : W.t();
    while (stored.dim() < rank) stored = layer->is_convolution() ? stored.unsqueeze(-1) : stored.unsqueeze(0);
    at::Tensor value = layer->is_convolution() ? x.reshape({1, 3, 1, 1}) : x.unsqueeze(layer->value_axis == -1 ? 0 : 1);
    if (!layer->is_convolution() && rank > 2) value = value.unsqueeze(0);
    std::vector<at::Tensor> inputs(2);
    inputs[weight] = stored;
    inputs[1 - weight] = value;
    const at::Tensor y = evaluate(require_op(node), {.node = node, .inputs = inputs}).at(0);
    EXPECT_EQ(y.size(layer->value_axis), 5) << node.op;
    EXPECT_TRUE(at::allclose(y.flatten(), layer->alpha * at::mv(W, x))) << node.op;
  };
  check({.name = "n", .op = "Conv", .inputs = {"x", "W"}}, 1, 4);
  check({.name = "n", .op = "ConvTranspose", .inputs = {"x", "W"}}, 1, 4);
  check({.name = "n", .op = "MatMul", .inputs = {"x", "W"}}, 1, 2);
  check({.name = "n", .op = "MatMul", .inputs = {"x", "W"}}, 1, 3);
  check({.name = "n", .op = "MatMul", .inputs = {"W", "x"}}, 0, 2);
  check({.name = "n", .op = "Gemm", .inputs = {"x", "W"}}, 1, 2);
  Node turned{.name = "n", .op = "Gemm", .inputs = {"x", "W"}};
  turned.attributes = {{"transB", int64_t{1}}, {"alpha", 2.0}};
  check(turned, 1, 2);
}

TEST(Traits, ATargetShapeIsTheShapeOfTheOutput) {
  const at::Tensor x = at::randn({1, 3}, at::kDouble);
  int64_t seen = 0;
  for (const OpDef* op : all_ops()) {
    if (op->traits.target_shape == 0) continue;
    ++seen;
    const Node node{.name = "n", .op = std::string(op->type), .inputs = {"x", "shape"}, .outputs = {"y"}};
    std::vector<at::Tensor> inputs(2, x);
    inputs.at(op->traits.target_shape) = at::tensor({1, 1, 3}, at::kLong);
    EXPECT_EQ(evaluate(*op, {.node = node, .inputs = inputs}).at(0).sizes(), at::IntArrayRef({1, 1, 3})) << op->type;
  }
  EXPECT_EQ(seen, 2);
}

// ONNX's names of operators that quantise or compute with what is quantised.
TEST(Traits, QuantizedOperatorsSaySo) {
  int64_t seen = 0;
  for (const OpDef* op : all_ops()) {
    const bool named = op->type.find("Quantize") != std::string_view::npos ||
                       op->type.find("quantize") != std::string_view::npos || op->type.starts_with("QLinear") ||
                       op->type.ends_with("Integer");
    EXPECT_EQ(op->traits.quantized, named) << op->type;
    seen += named ? 1 : 0;
  }
  EXPECT_EQ(seen, 7);
}

TEST(Traits, AnUnknownOperatorHasNone) {
  EXPECT_EQ(kind_of({.op = "Relu", .domain = "com.example"}), OpKind::other);
  EXPECT_FALSE(linear_layer({.op = "Einsum", .inputs = {"x", "W"}}, 1, 2));
}

}  // namespace
}  // namespace pare
