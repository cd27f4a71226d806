// Linear quantization: y = saturate(round(x / scale) + zero_point), and back. Scale and zero point are one number, one
// for each place along an axis, or one for each block of places along it.
#include <ATen/ATen.h>

#include <cmath>

#include "pare/ops/common.h"
#include "pare/ops/dtype.h"
#include "pare/ops/subfamilies.h"

namespace pare {
namespace {
namespace quantization {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// A scale or zero point with the extents that broadcast it over x.
Tensor spread(const Node& node, const Tensor& x, const Tensor& parameter) {
  const int64_t block = node.integer("block_size", 0);
  if (block == 0 && parameter.numel() == 1) return parameter.reshape({});
  const int64_t axis = normalized_axis(node.integer("axis", 1), x.dim(), node);
  const auto misfit = [&] {
    return Error(ErrorKind::shape, describe(node), "scale or zero point {} does not fit {} along axis {}",
                 to_string(parameter.sizes()), to_string(x.sizes()), axis);
  };
  if (block == 0) {
    if (x.dim() == 0 || parameter.dim() != 1 || parameter.size(0) != x.size(axis)) throw misfit();
    Shape dims(static_cast<size_t>(x.dim()), 1);
    dims[static_cast<size_t>(axis)] = parameter.size(0);
    return parameter.reshape(dims);
  }
  if (block < 0 || parameter.dim() != x.dim() || x.dim() == 0) throw misfit();
  const int64_t length = std::min(block, std::max<int64_t>(x.size(axis), 1));
  for (int64_t i = 0; i < x.dim(); ++i)
    if (parameter.size(i) != (i == axis ? (x.size(i) + length - 1) / length : x.size(i))) throw misfit();
  return parameter.repeat_interleave(length, axis).narrow(axis, 0, x.size(axis));
}

Tensor saturated(const Tensor& y, at::ScalarType dtype) {
  return at::clamp(y, lowest_of(dtype), highest_of(dtype)).to(dtype);
}

Tensor saturated(const Tensor& y, const CarriedType& type) {
  const double half = std::ldexp(1.0, type.bits - 1);
  return at::clamp(y, type.is_signed ? -half : 0.0, type.is_signed ? half - 1 : 2 * half - 1).to(type.carrier);
}

at::ScalarType quantized_type(const Node& node, bool has_zero, at::ScalarType zero) {
  if (has_zero) return zero;
  const int64_t code = node.integer("output_dtype", 0);
  return code == 0 ? at::kByte : dtype_from_onnx(code, node);
}

Tensors quantize(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const Tensor scale = spread(context.node, x, context.in(1));
  const bool has_zero = context.has(2);
  const auto dtype = quantized_type(context.node, has_zero, has_zero ? context.in(2).scalar_type() : at::kByte);
  const Tensor quotient = widened(x.is_floating_point() ? x : x.to(at::kFloat)) / widened(scale);
  const int64_t precision = context.node.integer("precision", 0);
  const auto divided_in = precision == 0 ? scale.scalar_type() : dtype_from_onnx(precision, context.node);
  Tensor y = at::round(at::isFloatingType(divided_in) ? quotient.to(divided_in).to(quotient.scalar_type()) : quotient);
  if (has_zero) y = y + spread(context.node, x, context.in(2)).to(y.scalar_type());
  const auto carried = carried_type(has_zero ? context.carried_type_of(2) : context.node.integer("output_dtype", 0));
  return {carried ? saturated(y, *carried) : saturated(y, dtype)};
}

std::vector<TensorType> infer_quantize(const InferContext& context) {
  const bool has_zero = context.has(2);
  return {{quantized_type(context.node, has_zero, has_zero ? context.in(2).dtype : at::kByte), context.in(0).dims}};
}

at::ScalarType dequantized_type(const Node& node, at::ScalarType scale) {
  const int64_t code = node.integer("output_dtype", 0);
  return code == 0 ? scale : dtype_from_onnx(code, node);
}

Tensors dequantize(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const Tensor scale = widened(spread(context.node, x, context.in(1)));
  Tensor centred = x.to(at::kInt);
  if (context.has(2)) centred = centred - spread(context.node, x, context.in(2)).to(at::kInt);
  return {
      narrowed(centred.to(scale.scalar_type()) * scale, dequantized_type(context.node, context.in(1).scalar_type()))};
}

std::vector<TensorType> infer_dequantize(const InferContext& context) {
  return {{dequantized_type(context.node, context.in(1).dtype), context.in(0).dims}};
}

// The range of x, stretched to hold zero, on the 256 numbers of uint8.
Tensors dynamic_quantize(const EvalContext& context) {
  const Tensor x = context.in(0).to(at::kFloat);
  if (x.numel() == 0) throw Error(ErrorKind::shape, describe(context.node), "quantizes nothing");
  const Tensor low = x.min().clamp_max(0);
  const Tensor high = x.max().clamp_min(0);
  Tensor scale = (high - low) / 255;
  if (scale.item<float>() == 0) scale = at::ones_like(scale);
  const Tensor zero = at::round(-low / scale).clamp(0, 255);
  return {saturated(at::round(x / scale) + zero, at::kByte), scale, zero.to(at::kByte)};
}

std::vector<TensorType> infer_dynamic(const InferContext& context) {
  return {{at::kByte, context.in(0).dims}, {at::kFloat, {}}, {at::kByte, {}}};
}

// Channels pass through. One scale for all does not look at them; scales along the axis that they lie on are theirs.
void labels_by_scale(LabelContext& context) {
  const Tensor& ids = context.ids(0);
  if (!ids.defined()) return;
  if (context.node.integer("block_size", 0) != 0)
    return context.freeze_inputs(fmt::format("{} has a scale for each block", describe(context.node)));
  const int64_t rank = context.inputs[0].rank();
  for (const size_t i : {1, 2}) {
    if (!context.has(i) || context.inputs[i].count() == 1) continue;
    const int64_t axis = normalized_axis(context.node.integer("axis", 1), rank, context.node);
    if (ids.size(axis) == 1) continue;
    if (!context.is_parameter(i) || ids.size(axis) != ids.numel())
      return context.freeze_inputs(fmt::format("{} takes scales that are computed", describe(context.node)));
    context.slot(i, 0, context.along(0, axis), SlotRole::pass);
  }
  context.set(0, ids);
}

Cost cost(const CostContext& context) { return {.flops = 2 * context.outputs[0].count()}; }

constexpr OpDef op(std::string_view type, EvaluateFunction evaluate, InferFunction infer, int since, size_t inputs) {
  return {.type = type,
          .since = since,
          .min_inputs = inputs == 1 ? 1U : 2U,
          .max_inputs = inputs,
          .evaluate = evaluate,
          .infer = infer,
          .cost = cost,
          .labels = inputs == 1 ? labels_frozen : labels_by_scale};
}

constexpr OpDef kOps[] = {
    op("QuantizeLinear", quantize, infer_quantize, 13, 3)
        .taking("axis block_size output_dtype precision saturate")
        .being({.quantized = true, .own_types = true}),
    op("DequantizeLinear", dequantize, infer_dequantize, 13, 3)
        .taking("axis block_size output_dtype")
        .being({.quantized = true, .own_types = true, .typed_like = 1}),
    op("DynamicQuantizeLinear", dynamic_quantize, infer_dynamic, 11, 1).being({.quantized = true}),
};

}  // namespace quantization
}  // namespace

std::span<const OpDef> quantization_ops() { return quantization::kOps; }

}  // namespace pare
