// Operators that make values from attributes, shapes and numbers (Constant, ConstantOfShape, Shape, Size, Range),
// change element types (Cast, CastLike) or shift bits.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "pare/ops/common.h"
#include "pare/ops/dtype.h"
#include "pare/ops/families.h"
#include "pare/ops/subfamilies.h"

namespace pare {
namespace {
namespace constant {

using at::Tensor;
using Tensors = std::vector<Tensor>;

TensorType type_of(const Tensor& tensor) { return {tensor.scalar_type(), tensor.sizes().vec()}; }

const Tensor& tensor_attribute(const Node& node, const std::string& name) {
  const auto* tensor = std::get_if<Tensor>(&node.attributes.at(name));
  if (tensor == nullptr || !tensor->defined())
    throw Error(ErrorKind::format, describe(node), "{} is not a tensor", name);
  return *tensor;
}

// --- Constant and ConstantOfShape

Tensor constant_value(const Node& node) {
  if (node.has("value")) return tensor_attribute(node, "value");
  if (node.has("value_int")) return at::scalar_tensor(node.integer("value_int", 0), at::kLong);
  if (node.has("value_float")) return at::scalar_tensor(node.real("value_float", 0), at::kFloat);
  if (node.has("value_ints")) return at::tensor(node.integers("value_ints"), at::kLong);
  if (node.has("value_floats")) return at::tensor(node.reals("value_floats"), at::kFloat);
  throw Error(ErrorKind::unsupported, describe(node), "has no value of a supported kind");
}

Tensors evaluate_constant(const EvalContext& context) { return {constant_value(context.node)}; }
std::vector<TensorType> infer_constant(const InferContext& context) { return {type_of(constant_value(context.node))}; }

Tensor fill_value(const Node& node) {
  if (!node.has("value")) return at::zeros({}, at::kFloat);
  const Tensor& value = tensor_attribute(node, "value");
  if (value.numel() != 1)
    throw Error(ErrorKind::format, describe(node), "value has {} entries, expected 1", value.numel());
  return value.reshape({});
}

void check_dims(const Node& node, const Shape& dims) {
  double count = 1;
  for (const int64_t dim : dims) count *= static_cast<double>(dim);
  if (std::ranges::any_of(dims, [](int64_t dim) { return dim < 0; }) || count > 1e15)
    throw Error(ErrorKind::format, describe(node), "asks for a tensor of {}", to_string(dims));
}

Tensors constant_of_shape(const EvalContext& context) {
  const Shape dims = context.integers(0);
  check_dims(context.node, dims);
  const Tensor value = fill_value(context.node);
  return {at::full(dims, value.item(), value.options())};
}

std::vector<TensorType> infer_constant_of_shape(const InferContext& context) {
  const auto dtype = fill_value(context.node).scalar_type();
  if (context.in(0).count() == 0) return {{dtype, {}}};
  const Shape dims = context.integers(0);
  check_dims(context.node, dims);
  return {{dtype, dims}};
}

// --- Shape and Size

// The extents from `start` to `end`, both clamped into the rank.
Shape extents(const Node& node, at::IntArrayRef dims) {
  const auto rank = static_cast<int64_t>(dims.size());
  const auto clamped = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const int64_t start = clamped(node.integer("start", 0));
  const int64_t end = clamped(node.integer("end", rank));
  return start < end ? Shape(dims.begin() + start, dims.begin() + end) : Shape{};
}

Tensors shape(const EvalContext& context) {
  return {at::tensor(extents(context.node, context.in(0).sizes()), at::kLong)};
}

std::vector<TensorType> infer_shape(const InferContext& context) {
  return {{at::kLong, {static_cast<int64_t>(extents(context.node, context.in(0).dims).size())}}};
}

Tensors size(const EvalContext& context) { return {at::scalar_tensor(context.in(0).numel(), at::kLong)}; }
std::vector<TensorType> infer_size(const InferContext& /*context*/) { return {{at::kLong, {}}}; }

// --- Range

int64_t range_count(const Node& node, const Tensor& start, const Tensor& limit, const Tensor& delta) {
  for (const Tensor& t : {start, limit, delta})
    if (t.numel() != 1)
      throw Error(ErrorKind::format, describe(node), "takes {} numbers where one is expected", t.numel());
  const double step = delta.item<double>();
  const double count = std::ceil((limit.item<double>() - start.item<double>()) / step);
  if (step == 0 || !(std::abs(count) < 1e15)) throw Error(ErrorKind::format, describe(node), "has steps of {}", step);
  return std::max<int64_t>(static_cast<int64_t>(count), 0);
}

Tensors range(const EvalContext& context) {
  if (context.node.integer("stash_type", 1) != 1)
    throw Error(ErrorKind::unsupported, describe(context.node), "adds up in another type than float");
  const Tensor& start = context.in(0);
  const int64_t count = range_count(context.node, start, context.in(1), context.in(2));
  const Tensor steps = at::arange(count, at::kLong);
  if (!start.is_floating_point())
    return {(steps * context.in(2).item<int64_t>() + start.item<int64_t>()).to(start.scalar_type())};
  return {(steps.to(at::kDouble) * context.in(2).item<double>() + start.item<double>()).to(start.scalar_type())};
}

std::vector<TensorType> infer_range(const InferContext& context) {
  for (size_t i = 0; i < 3; ++i) {
    context.in(i);
    if (!context.values[i].defined()) throw UnknownValue{};
  }
  return {{context.in(0).dtype, {range_count(context.node, context.values[0], context.values[1], context.values[2])}}};
}

// --- Cast and CastLike: fractions are cut off, everything but zero is true

at::ScalarType cast_target(const Node& node) {
  if (!node.has("to")) throw Error(ErrorKind::format, describe(node), "does not say what to cast to");
  return dtype_from_onnx(node.integer("to", 1), node);
}

// Over whole numbers to types that are carried, so that nothing is lost before it wraps round.
Tensors cast(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const auto dtype = cast_target(context.node);
  const int64_t code = context.node.integer("to", 1);
  return {carried_type(code) ? wrapped(x, code, context.node) : x.to(dtype)};
}
std::vector<TensorType> infer_cast(const InferContext& context) {
  return {{cast_target(context.node), context.in(0).dims}};
}

Tensors cast_like(const EvalContext& context) {
  const int32_t code = context.carried_type_of(1);
  return {code != 0 ? wrapped(context.in(0), code, context.node) : context.in(0).to(context.in(1).scalar_type())};
}
std::vector<TensorType> infer_cast_like(const InferContext& context) {
  return {{context.in(1).dtype, context.in(0).dims}};
}

// --- BitCast: the same bits as another type of the same width

// The signed type of as many bits as a carried one.
at::ScalarType signed_twin(const Node& node, int64_t code) {
  switch (carried_type(code)->bits) {
    case 16: return at::kShort;
    case 32: return at::kInt;
    case 64: return at::kLong;
    default: throw Error(ErrorKind::unsupported, describe(node), "reads the bits of numbers that share a byte");
  }
}

Tensors bit_cast(const EvalContext& context) {
  const int32_t from = context.carried_type_of(0);
  const Tensor x = from == 0 ? context.in(0) : context.in(0).to(signed_twin(context.node, from));
  const int64_t code = context.node.integer("to", 1);
  const auto dtype = carried_type(code) ? signed_twin(context.node, code) : cast_target(context.node);
  if (c10::elementSize(dtype) != c10::elementSize(x.scalar_type()))
    throw Error(ErrorKind::format, describe(context.node), "reads {} as {}", c10::toString(x.scalar_type()),
                c10::toString(dtype));
  const Tensor bytes = x.contiguous();
  if (dtype == at::kBool) return {bytes.view(at::kByte).ne(0)};
  return {x.scalar_type() == at::kBool ? bytes.to(at::kByte).view(dtype) : bytes.view(dtype)};
}

// --- BitShift

Tensors bit_shift(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const Tensor& by = context.in(1);
  const std::string direction = context.node.text("direction", "");
  if (x.is_floating_point() || by.is_floating_point())
    throw Error(ErrorKind::format, describe(context.node), "shifts the bits of a floating-point number");
  if (direction != "LEFT" && direction != "RIGHT")
    throw Error(ErrorKind::format, describe(context.node), "direction is '{}'", direction);
  // Over 62 places nothing is left; ATen does not define the shift there.
  const Tensor places = by.to(at::kLong).clamp(0, 62);
  const Tensor wide = x.to(at::kLong);
  const Tensor y = direction == "LEFT" ? at::bitwise_left_shift(wide, places) : at::bitwise_right_shift(wide, places);
  return {y.to(x.scalar_type())};
}

constexpr OpDef kOps[] = {
    {.type = "Constant",
     .attributes = "sparse_value value value_float value_floats value_int value_ints value_string value_strings",
     .since = 1,
     .max_inputs = 0,
     .evaluate = evaluate_constant,
     .infer = infer_constant,
     .cost = cost_none,
     .labels = labels_none},
    {.type = "ConstantOfShape",
     .attributes = "value",
     .since = 9,
     .min_inputs = 1,
     .max_inputs = 1,
     .evaluate = constant_of_shape,
     .infer = infer_constant_of_shape,
     .cost = cost_none,
     .labels = labels_none,
     .traits = {.kind = OpKind::filled}},
    {.type = "Shape",
     .attributes = "end start",
     .since = 1,
     .min_inputs = 1,
     .max_inputs = 1,
     .evaluate = shape,
     .infer = infer_shape,
     .cost = cost_none,
     .labels = labels_none,
     .traits = {.kind = OpKind::extents}},
    {.type = "Size",
     .since = 1,
     .min_inputs = 1,
     .max_inputs = 1,
     .evaluate = size,
     .infer = infer_size,
     .cost = cost_none,
     .labels = labels_none,
     .traits = {.kind = OpKind::extents}},
    {.type = "Range",
     .attributes = "stash_type",
     .since = 11,
     .min_inputs = 3,
     .max_inputs = 3,
     .evaluate = range,
     .infer = infer_range,
     .cost = cost_none,
     .labels = labels_none},
    {.type = "Cast",
     .attributes = "round_mode saturate to",
     .since = 6,
     .min_inputs = 1,
     .max_inputs = 1,
     .evaluate = cast,
     .infer = infer_cast,
     .cost = cost_none,
     .labels = labels_same,
     .traits = {.kind = OpKind::same}},
    {.type = "BitCast",
     .attributes = "to",
     .since = 26,
     .min_inputs = 1,
     .max_inputs = 1,
     .evaluate = bit_cast,
     .infer = infer_cast,
     .cost = cost_none,
     .labels = labels_same,
     .traits = {.own_types = true}},
    {.type = "CastLike",
     .attributes = "round_mode saturate",
     .since = 15,
     .min_inputs = 2,
     .max_inputs = 2,
     .evaluate = cast_like,
     .infer = infer_cast_like,
     .cost = cost_none,
     .labels = labels_same,
     .traits = {.kind = OpKind::same, .typed_like = 1}},
    {.type = "BitShift",
     .attributes = "direction",
     .since = 11,
     .min_inputs = 2,
     .max_inputs = 2,
     .evaluate = bit_shift,
     .infer = infer_broadcast,
     .cost = cost_elementwise,
     .labels = labels_broadcast},
};

}  // namespace constant
}  // namespace

std::span<const OpDef> constant_ops() {
  static const std::vector<OpDef> all = joined({constant::kOps, quantization_ops(), random_ops()});
  return all;
}

}  // namespace pare
