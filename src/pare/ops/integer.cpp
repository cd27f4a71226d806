// Products of quantized numbers: MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv. They are computed in double
// precision, which holds every sum of products of eight bits exactly.
#include <ATen/ATen.h>

#include "pare/ops/common.h"
#include "pare/ops/convolution.h"
#include "pare/ops/dtype.h"
#include "pare/ops/families.h"

namespace pare {
namespace {
namespace integer {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// x − zero point, which is one number or has one for each place along `axis`; an absent one is 0.
Tensor centred(const EvalContext& context, const Tensor& x, size_t zero, int64_t axis) {
  const Tensor wide = x.to(at::kDouble);
  if (!context.has(zero)) return wide;
  const Tensor& point = context.in(zero);
  if (point.numel() == 1) return wide - point.to(at::kDouble).reshape({});
  if (point.dim() != 1) return wide - point.to(at::kDouble);
  const int64_t place = normalized_axis(axis, x.dim(), context.node);
  if (point.size(0) != x.size(place))
    throw Error(ErrorKind::shape, describe(context.node), "{} zero points for {}", point.size(0), to_string(x.sizes()));
  Shape dims(static_cast<size_t>(x.dim()), 1);
  dims[static_cast<size_t>(place)] = point.size(0);
  return wide - point.to(at::kDouble).reshape(dims);
}

Tensor spread(const EvalContext& context, size_t input, const Tensor& y, int64_t axis) {
  const Tensor scale = context.in(input).to(at::kDouble);
  if (scale.numel() == 1) return scale.reshape({});
  if (scale.dim() != 1) return scale;
  const int64_t place = normalized_axis(axis, y.dim(), context.node);
  Shape dims(static_cast<size_t>(y.dim()), 1);
  dims[static_cast<size_t>(place)] = scale.size(0);
  return scale.reshape(dims);
}

// A sum of products rounded to the numbers of `zero`'s type.
Tensor requantized(const EvalContext& context, const Tensor& y, const Tensor& scale, size_t y_scale, size_t zero) {
  const Tensor& point = context.in(zero);
  const Tensor steps = (y * scale / spread(context, y_scale, y, -1)).to(at::kFloat);
  const Tensor rounded = at::round(steps) + point.to(at::kFloat).reshape({});
  return at::clamp(rounded, lowest_of(point.scalar_type()), highest_of(point.scalar_type())).to(point.scalar_type());
}

Shape product_dims(const Node& node, Shape a, Shape b) {
  if (a.empty() || b.empty()) throw Error(ErrorKind::shape, describe(node), "an operand is a scalar");
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  if (a.back() != b[b.size() - 2])
    throw Error(ErrorKind::shape, describe(node), "{} columns meet {} rows", a.back(), b[b.size() - 2]);
  Shape y = broadcast_dims({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2}, node);
  if (!row) y.push_back(a[a.size() - 2]);
  if (!column) y.push_back(b.back());
  return y;
}

// Zero points of A belong to its rows, those of B to its columns.
Tensors matmul_integer(const EvalContext& context) {
  const Tensor& a = context.in(0);
  const Tensor& b = context.in(1);
  product_dims(context.node, a.sizes().vec(), b.sizes().vec());
  return {at::matmul(centred(context, a, 2, a.dim() > 1 ? -2 : -1), centred(context, b, 3, -1)).to(at::kInt)};
}

std::vector<TensorType> infer_matmul_integer(const InferContext& context) {
  return {{at::kInt, product_dims(context.node, context.in(0).dims, context.in(1).dims)}};
}

Cost cost_product(const CostContext& context) {
  const Shape& a = context.inputs[0].dims;
  const int64_t macs = context.outputs[0].count() * (a.empty() ? 1 : a.back());
  return {.macs = macs, .flops = 2 * macs};
}

// Inputs: a, its scale and zero point; b, its scale and zero point; scale and zero point of the result.
Tensors qlinear_matmul(const EvalContext& context) {
  const Tensor& a = context.in(0);
  const Tensor& b = context.in(3);
  product_dims(context.node, a.sizes().vec(), b.sizes().vec());
  const Tensor y = at::matmul(centred(context, a, 2, a.dim() > 1 ? -2 : -1), centred(context, b, 5, -1));
  const Tensor scale = spread(context, 1, y, y.dim() > 1 ? -2 : -1) * spread(context, 4, y, -1);
  return {requantized(context, y, scale, 6, 7)};
}

std::vector<TensorType> infer_qlinear_matmul(const InferContext& context) {
  return {{context.in(7).dtype, product_dims(context.node, context.in(0).dims, context.in(3).dims)}};
}

Tensors conv_integer(const EvalContext& context) {
  return {convolve(context.node, centred(context, context.in(0), 2, 0), centred(context, context.in(1), 3, 0), Tensor())
              .to(at::kInt)};
}

std::vector<TensorType> infer_conv_integer(const InferContext& context) {
  return {{at::kInt, convolved_dims(context.node, context.in(0).dims, context.in(1).dims)}};
}

Cost conv_cost(const CostContext& context, size_t weight) {
  const Shape& w = context.inputs[weight].dims;
  const int64_t macs = context.outputs[0].count() * (TensorType{.dims = w}.count() / std::max<int64_t>(w[0], 1));
  return {.macs = macs, .flops = 2 * macs};
}

Cost cost_conv_integer(const CostContext& context) { return conv_cost(context, 1); }
Cost cost_qlinear_conv(const CostContext& context) { return conv_cost(context, 3); }

// Inputs: x, scale, zero point; w, scale, zero point; scale and zero point of the result; bias.
Tensors qlinear_conv(const EvalContext& context) {
  const Tensor bias = context.has(8) ? context.in(8).to(at::kDouble) : Tensor();
  const Tensor y =
      convolve(context.node, centred(context, context.in(0), 2, 0), centred(context, context.in(3), 5, 0), bias);
  const Tensor scale = context.in(1).to(at::kDouble).reshape({}) * spread(context, 4, y, 1);
  return {requantized(context, y, scale, 6, 7)};
}

std::vector<TensorType> infer_qlinear_conv(const InferContext& context) {
  return {{context.in(7).dtype, convolved_dims(context.node, context.in(0).dims, context.in(3).dims)}};
}

void labels(LabelContext& context) {
  context.freeze_inputs(fmt::format("{} multiplies integers", describe(context.node)));
}

constexpr std::string_view kWindow = "auto_pad dilations group kernel_shape pads strides";

constexpr OpDef op(std::string_view type, EvaluateFunction evaluate, InferFunction infer, CostFunction cost,
                   size_t least, size_t most) {
  return {.type = type,
          .since = 10,
          .min_inputs = least,
          .max_inputs = most,
          .evaluate = evaluate,
          .infer = infer,
          .cost = cost,
          .labels = labels,
          .traits = {.quantized = true, .own_types = true}};
}

constexpr OpDef kOps[] = {
    op("MatMulInteger", matmul_integer, infer_matmul_integer, cost_product, 2, 4),
    op("QLinearMatMul", qlinear_matmul, infer_qlinear_matmul, cost_product, 8, 8),
    op("ConvInteger", conv_integer, infer_conv_integer, cost_conv_integer, 2, 4).taking(kWindow),
    op("QLinearConv", qlinear_conv, infer_qlinear_conv, cost_qlinear_conv, 8, 9).taking(kWindow),
};

}  // namespace integer
}  // namespace

std::span<const OpDef> integer_ops() { return integer::kOps; }

}  // namespace pare
