// Operators with one input that act on each element by itself: activations, mathematics, Dropout.
#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "pare/ops/common.h"
#include "pare/ops/dtype.h"
#include "pare/ops/families.h"

namespace pare {
namespace {
namespace activation {

using Tensors = std::vector<at::Tensor>;
using at::Tensor;

// Many of ATen's kernels do not know half precision: those are computed in float.
template <typename Function>
Tensors in_float(const EvalContext& context, Function function) {
  const Tensor& x = context.in(0);
  return {narrowed(function(widened(x)), x.scalar_type())};
}

// An operator that is one ATen function of its input.
template <Tensor (*function)(const Tensor&)>
Tensors unary(const EvalContext& context) {
  return in_float(context, function);
}

Tensors relu(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const bool half = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
  if (!half && context.reusable(0)) return {x.relu_()};
  return in_float(context, at::relu);
}

Tensors leaky_relu(const EvalContext& context) {
  return in_float(context, [&](const Tensor& x) { return at::leaky_relu(x, context.node.real("alpha", 0.01)); });
}

Tensors elu(const EvalContext& context) {
  return in_float(context, [&](const Tensor& x) { return at::elu(x, context.node.real("alpha", 1.0)); });
}

Tensors selu(const EvalContext& context) {
  const double alpha = context.node.real("alpha", 1.67326319217681884765625);
  const double gamma = context.node.real("gamma", 1.05070102214813232421875);
  return in_float(context, [&](const Tensor& x) { return at::elu(x, alpha, gamma); });
}

Tensors celu(const EvalContext& context) {
  return in_float(context, [&](const Tensor& x) { return at::celu(x, context.node.real("alpha", 1.0)); });
}

Tensors gelu(const EvalContext& context) {
  return in_float(context, [&](const Tensor& x) { return at::gelu(x, context.node.text("approximate", "none")); });
}

Tensors hard_sigmoid(const EvalContext& context) {
  const double alpha = context.node.real("alpha", 0.2);
  const double beta = context.node.real("beta", 0.5);
  return in_float(context, [&](const Tensor& x) { return at::clamp(x * alpha + beta, 0, 1); });
}

Tensors thresholded_relu(const EvalContext& context) {
  const Tensor& x = context.in(0);
  return {at::where(x > context.node.real("alpha", 1.0), x, at::zeros_like(x))};
}

Tensors shrink(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const double lambda = context.node.real("lambd", 0.5);
  const double bias = context.node.real("bias", 0.0);
  const Tensor zero = at::zeros_like(x);
  return {at::where(x < -lambda, x + bias, at::where(x > lambda, x - bias, zero)).to(x.scalar_type())};
}

Tensors softsign(const EvalContext& context) { return {context.in(0) / (1 + at::abs(context.in(0)))}; }

Tensors swish(const EvalContext& context) {
  return in_float(context, [&](const Tensor& x) { return x * at::sigmoid(x * context.node.real("alpha", 1.0)); });
}

Tensors hard_swish(const EvalContext& context) { return in_float(context, at::hardswish); }

Tensors mish(const EvalContext& context) { return in_float(context, at::mish); }

Tensors clip(const EvalContext& context) {
  const Tensor& x = context.in(0);
  if (x.numel() == 0 || (!context.has(1) && !context.has(2))) return {x};
  c10::optional<at::Scalar> low;
  c10::optional<at::Scalar> high;
  if (context.has(1)) low = context.in(1).item();
  if (context.has(2)) high = context.in(2).item();
  return {at::clamp(x, low, high)};
}

Tensors round_half_even(const EvalContext& context) {
  return in_float(context, [](const Tensor& x) { return at::round(x); });
}

Tensors is_inf(const EvalContext& context) {
  const Tensor& x = context.in(0);
  Tensor result = at::zeros_like(x, at::kBool);
  if (context.node.integer("detect_positive", 1) != 0) result = result | (x == std::numeric_limits<double>::infinity());
  if (context.node.integer("detect_negative", 1) != 0)
    result = result | (x == -std::numeric_limits<double>::infinity());
  return {result};
}

std::vector<TensorType> infer_bool(const InferContext& context) { return {{at::kBool, context.in(0).dims}}; }

// Dropout: the identity when evaluated; in training a mask drawn from ATen's generator.
Tensors dropout(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const double ratio = context.has(1) ? context.in(1).item<double>() : 0.5;
  const bool asked = context.has(2) && context.in(2).item<bool>();
  if ((!context.training && !asked) || ratio == 0.0)
    return {x, context.node.outputs.size() > 1 ? at::ones_like(x, at::kBool) : Tensor()};
  if (context.node.outputs.size() == 1) return {at::dropout(x, ratio, true)};
  const Tensor mask = at::rand_like(x) >= ratio;
  return {x * mask / (1 - ratio), mask};
}

std::vector<TensorType> infer_dropout(const InferContext& context) {
  return {context.in(0), {at::kBool, context.in(0).dims}};
}

void labels_dropout(LabelContext& context) {
  if (!context.ids(0).defined()) return;
  context.set(0, context.ids(0));
  context.set(1, context.ids(0));
}

Tensors identity(const EvalContext& context) { return {context.in(0)}; }

constexpr OpDef map(std::string_view type, EvaluateFunction evaluate, int since = 1) {
  return {.type = type,
          .since = since,
          .min_inputs = 1,
          .max_inputs = 1,
          .evaluate = evaluate,
          .infer = infer_same,
          .cost = cost_elementwise,
          .labels = labels_same,
          .traits = {.kind = OpKind::function, .law = Law::rigid}};
}

constexpr OpDef nonlinear(std::string_view type, EvaluateFunction evaluate, int since = 1) {
  OpDef op = map(type, evaluate, since);
  op.traits.kind = OpKind::activation;
  return op;
}

constexpr OpTraits kHomogeneous = {.kind = OpKind::activation, .law = Law::homogeneous};
constexpr OpTraits kGate = {.kind = OpKind::activation, .law = Law::rigid, .gate = true};

constexpr OpDef test(std::string_view type, EvaluateFunction evaluate) {
  OpDef op = map(type, evaluate);
  op.infer = infer_bool;
  op.traits = {};
  return op;
}

Tensors logical_not(const EvalContext& context) { return {at::logical_not(context.in(0))}; }
Tensors bitwise_not(const EvalContext& context) { return {at::bitwise_not(context.in(0))}; }
Tensors is_nan(const EvalContext& context) { return {at::isnan(context.in(0))}; }
Tensors softplus(const EvalContext& context) {
  return in_float(context, [](const Tensor& x) { return at::softplus(x, 1, 1e6); });
}
Tensors reciprocal(const EvalContext& context) { return in_float(context, at::reciprocal); }

constexpr OpDef kOps[] = {
    map("Relu", relu).being(kHomogeneous),
    map("LeakyRelu", leaky_relu).taking("alpha").being(kHomogeneous),
    nonlinear("Elu", elu).taking("alpha"),
    nonlinear("Selu", selu).taking("alpha gamma"),
    nonlinear("Celu", celu, 12).taking("alpha"),
    nonlinear("Gelu", gelu, 20).taking("approximate"),
    map("Sigmoid", unary<at::sigmoid>)
        .being({.kind = OpKind::activation, .law = Law::rigid, .probabilities = true, .gate = true}),
    map("HardSigmoid", hard_sigmoid).taking("alpha beta").being(kGate),
    nonlinear("HardSwish", hard_swish, 14),
    nonlinear("Mish", mish, 18),
    nonlinear("Swish", swish, 24).taking("alpha"),
    nonlinear("Tanh", unary<at::tanh>),
    nonlinear("Softplus", softplus),
    nonlinear("Softsign", softsign),
    nonlinear("ThresholdedRelu", thresholded_relu, 10).taking("alpha"),
    map("Shrink", shrink, 9).taking("bias lambd"),
    map("Erf", unary<at::erf>, 9),
    map("Exp", unary<at::exp>),
    map("Log", unary<at::log>),
    map("Sqrt", unary<at::sqrt>),
    map("Reciprocal", reciprocal),
    map("Abs", unary<at::abs>).being({.kind = OpKind::function, .law = Law::homogeneous}),
    map("Neg", unary<at::neg>),
    map("Sign", unary<at::sign>, 9),
    map("Ceil", unary<at::ceil>),
    map("Floor", unary<at::floor>),
    map("Round", round_half_even, 11),
    map("Sin", unary<at::sin>, 7),
    map("Cos", unary<at::cos>, 7),
    map("Tan", unary<at::tan>, 7),
    map("Asin", unary<at::asin>, 7),
    map("Acos", unary<at::acos>, 7),
    map("Atan", unary<at::atan>, 7),
    map("Sinh", unary<at::sinh>, 9),
    map("Cosh", unary<at::cosh>, 9),
    map("Asinh", unary<at::asinh>, 9),
    map("Acosh", unary<at::acosh>, 9),
    map("Atanh", unary<at::atanh>, 9),
    test("Not", logical_not),
    map("BitwiseNot", bitwise_not, 18).being({}),
    test("IsNaN", is_nan),
    test("IsInf", is_inf).taking("detect_negative detect_positive"),
    {.type = "Identity",
     .min_inputs = 1,
     .max_inputs = 1,
     .evaluate = identity,
     .infer = infer_same,
     .cost = cost_none,
     .labels = labels_same,
     .traits = {.kind = OpKind::same, .law = Law::average}},
    {.type = "Clip",
     .since = 11,
     .min_inputs = 1,
     .max_inputs = 3,
     .evaluate = clip,
     .infer = infer_same,
     .cost = cost_elementwise,
     .labels = labels_same,
     .traits = {.kind = OpKind::activation, .law = Law::rigid, .gate = true}},
    {.type = "Dropout",
     .attributes = "seed",
     .since = 12,
     .min_inputs = 1,
     .max_inputs = 3,
     .evaluate = dropout,
     .infer = infer_dropout,
     .cost = cost_none,
     .labels = labels_dropout,
     .traits = {.kind = OpKind::same, .law = Law::average}},
};

}  // namespace activation
}  // namespace

std::span<const OpDef> activation_ops() { return activation::kOps; }

}  // namespace pare
