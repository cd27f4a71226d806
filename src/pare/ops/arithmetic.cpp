// Operators of several inputs that act element by element, broadcast as numpy does: arithmetic, comparison, logic.
#include <ATen/ATen.h>

#include "pare/ops/common.h"
#include "pare/ops/families.h"

namespace pare {
namespace {
namespace arithmetic {

using Tensors = std::vector<at::Tensor>;
using at::Tensor;

template <Tensor (*function)(const Tensor&, const Tensor&)>
Tensors binary(const EvalContext& context) {
  return {function(context.in(0), context.in(1))};
}

Tensors add(const EvalContext& context) {
  const Tensor& a = context.in(0);
  const Tensor& b = context.in(1);
  if (context.reusable(0) && a.sizes() == at::infer_size(a.sizes(), b.sizes())) return {a.add_(b)};
  return {at::add(a, b)};
}

Tensors sub(const EvalContext& context) { return {at::sub(context.in(0), context.in(1))}; }

bool integers(const Tensor& a, const Tensor& b) {
  return at::isIntegralType(a.scalar_type(), false) && at::isIntegralType(b.scalar_type(), false);
}

// The processor traps where the smallest integer is divided by −1: here that wraps round to itself, as in two's
// complement, and −1 is never divided by.
Tensors div(const EvalContext& context) {
  const Tensor& a = context.in(0);
  const Tensor& b = context.in(1);
  if (!integers(a, b)) return {at::div(a, b)};
  if (b.eq(0).any().item<bool>()) throw Error(ErrorKind::failed, describe(context.node), "divides an integer by zero");
  const Tensor minus_one = b.scalar_type() == at::kByte ? at::zeros({}, at::kBool) : b.eq(-1);
  return {at::where(minus_one, at::neg(a), at::div(a, b.masked_fill(minus_one, 1), "trunc"))};
}

Tensors mod(const EvalContext& context) {
  const Tensor& a = context.in(0);
  const Tensor& b = context.in(1);
  const bool truncated = context.node.integer("fmod", 0) != 0;
  if (!integers(a, b)) return {truncated ? at::fmod(a, b) : at::remainder(a, b)};
  if (b.eq(0).any().item<bool>())
    throw Error(ErrorKind::failed, describe(context.node), "takes an integer modulo zero");
  const Tensor divisor = b.scalar_type() == at::kByte ? b : b.masked_fill(b.eq(-1), 1);  // the same remainder: 0
  return {truncated ? at::fmod(a, divisor) : at::remainder(a, divisor)};
}

Tensors pow(const EvalContext& context) {
  const Tensor& base = context.in(0);
  const Tensor& exponent = context.in(1);
  if (!base.is_floating_point() && exponent.is_floating_point())
    return {at::pow(base.to(at::kDouble), exponent).to(base.scalar_type())};
  if (exponent.numel() == 1 && base.dim() >= exponent.dim())  // a scalar exponent has a cheaper kernel and gradient
    return {at::pow(base, exponent.item())};
  return {at::pow(base, exponent).to(base.scalar_type())};
}

template <Tensor (*function)(const Tensor&, const Tensor&)>
Tensors fold(const EvalContext& context) {
  Tensor result = context.in(0);
  for (size_t i = 1; i < context.inputs.size(); ++i) result = function(result, context.in(i));
  return {result};
}

Tensor plus(const Tensor& a, const Tensor& b) { return at::add(a, b); }

Tensors mean(const EvalContext& context) {
  return {fold<plus>(context)[0] / static_cast<double>(context.inputs.size())};
}

Tensors where(const EvalContext& context) { return {at::where(context.in(0), context.in(1), context.in(2))}; }

std::vector<TensorType> infer_where(const InferContext& context) {
  auto result = infer_broadcast(context);
  result[0].dtype = context.in(1).dtype;
  return result;
}

Tensors prelu(const EvalContext& context) {
  const Tensor& x = context.in(0);
  return {at::where(x < 0, x * context.in(1), x).to(x.scalar_type())};
}

constexpr OpDef combine(std::string_view type, EvaluateFunction evaluate, int since = 7) {
  return {.type = type,
          .since = since,
          .min_inputs = 2,
          .max_inputs = 2,
          .evaluate = evaluate,
          .infer = infer_broadcast,
          .cost = cost_elementwise,
          .labels = labels_broadcast};
}

constexpr OpDef compare(std::string_view type, EvaluateFunction evaluate, int since = 7) {
  OpDef op = combine(type, evaluate, since);
  op.infer = infer_broadcast_bool;
  return op;
}

constexpr OpDef variadic(std::string_view type, EvaluateFunction evaluate) {
  OpDef op = combine(type, evaluate, 8);
  op.min_inputs = 1;
  op.max_inputs = SIZE_MAX;
  return op;
}

constexpr OpDef kOps[] = {
    combine("Add", add).being({.kind = OpKind::sum}),
    combine("Sub", sub).being({.kind = OpKind::sum}),
    combine("Mul", binary<at::mul>).being({.kind = OpKind::product}),
    combine("Div", div).being({.kind = OpKind::product}),
    combine("Mod", mod, 10).taking("fmod"),
    combine("Pow", pow),
    combine("PRelu", prelu).being({.kind = OpKind::activation, .law = Law::homogeneous, .learned = {1}}),
    combine("BitwiseAnd", binary<at::bitwise_and>, 18),
    combine("BitwiseOr", binary<at::bitwise_or>, 18),
    combine("BitwiseXor", binary<at::bitwise_xor>, 18),
    compare("And", binary<at::logical_and>),
    compare("Or", binary<at::logical_or>),
    compare("Xor", binary<at::logical_xor>),
    compare("Equal", binary<at::eq>),
    compare("Greater", binary<at::gt>),
    compare("GreaterOrEqual", binary<at::ge>, 12),
    compare("Less", binary<at::lt>),
    compare("LessOrEqual", binary<at::le>, 12),
    variadic("Max", fold<at::maximum>).being({.kind = OpKind::choice}),
    variadic("Min", fold<at::minimum>).being({.kind = OpKind::choice}),
    variadic("Sum", fold<plus>).being({.kind = OpKind::sum}),
    variadic("Mean", mean).being({.kind = OpKind::sum}),
    {.type = "Where",
     .since = 9,
     .min_inputs = 3,
     .max_inputs = 3,
     .evaluate = where,
     .infer = infer_where,
     .cost = cost_elementwise,
     .labels = labels_broadcast,
     .traits = {.typed_like = 1}},
};

}  // namespace arithmetic
}  // namespace

std::span<const OpDef> arithmetic_ops() { return arithmetic::kOps; }

}  // namespace pare
