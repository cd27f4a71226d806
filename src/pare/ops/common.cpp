#include "pare/ops/common.h"

#include <ATen/ATen.h>

namespace pare {

at::Tensor channels_last(const at::Tensor& images) {
  at::Tensor dense = images.contiguous(at::MemoryFormat::ChannelsLast);
  if (images.size(1) != 1) return dense;
  const int64_t height = images.size(2);
  const int64_t width = images.size(3);
  return dense.as_strided(images.sizes(), {height * width, 1, width, 1});
}

int64_t normalized_axis(int64_t axis, int64_t rank, const Node& node) {
  const int64_t result = axis < 0 ? axis + rank : axis;
  if (result < 0 || result >= rank)
    throw Error(ErrorKind::format, describe(node), "axis {} is outside a tensor of {} axes", axis, rank);
  return result;
}

std::vector<int64_t> normalized_axes(std::vector<int64_t> axes, int64_t rank, const Node& node) {
  for (auto& axis : axes) axis = normalized_axis(axis, rank, node);
  return axes;
}

Shape broadcast_dims(const Shape& a, const Shape& b, const Node& node) {
  Shape result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      throw Error(ErrorKind::shape, describe(node), "{} and {} do not broadcast", to_string(a), to_string(b));
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

std::vector<TensorType> infer_same(const InferContext& context) { return {context.in(0)}; }

std::vector<TensorType> infer_broadcast(const InferContext& context) {
  TensorType result = context.in(0);
  for (size_t i = 1; i < context.types.size(); ++i)
    if (context.has(i)) result.dims = broadcast_dims(result.dims, context.in(i).dims, context.node);
  return {result};
}

std::vector<TensorType> infer_broadcast_bool(const InferContext& context) {
  auto result = infer_broadcast(context);
  result[0].dtype = at::kBool;
  return result;
}

Cost cost_elementwise(const CostContext& context) { return {.flops = context.outputs[0].count()}; }
Cost cost_none(const CostContext& /*context*/) { return {}; }

void labels_same(LabelContext& context) {
  if (context.ids(0).defined()) context.set(0, context.ids(0));
}

void labels_frozen(LabelContext& context) {
  context.freeze_inputs(fmt::format("{} has no channel rule for it", describe(context.node)));
}

void labels_none(LabelContext& /*context*/) {}

namespace {

// An operand's ids aligned to the rank of the output, with the operand's own extents there.
struct Aligned {
  at::Tensor ids;
  Shape dims;
};

Aligned align(const LabelContext& context, size_t i, size_t rank) {
  Shape dims = context.inputs[i].dims;
  const size_t missing = rank - dims.size();
  dims.insert(dims.begin(), missing, 1);
  at::Tensor ids = context.ids(i);
  if (ids.defined()) {
    Shape id_dims = ids.sizes().vec();
    id_dims.insert(id_dims.begin(), missing, 1);
    ids = ids.reshape(id_dims);
  }
  return {ids, dims};
}

// Heads go as wholes: what is the same for all of them and varies inside (a rotation, a scale) ties together what lies
// in a head, so that it need not know of channels.
at::Tensor tied_inside_heads(LabelContext& context, const at::Tensor& ids, const Shape& dims,
                             const std::string& reason) {
  int64_t last = ids.dim() - 1;
  while (last > 0 && ids.size(last) == 1) --last;
  const int64_t own = last - (ids.dim() - static_cast<int64_t>(dims.size()));
  const bool beside = ids.size(last) < ids.numel();
  if (context.for_exchange() || context.by_dimension() || !beside || own < 0 || dims[static_cast<size_t>(own)] == 1)
    return ids;
  const at::Tensor first = ids.narrow(last, 0, 1);
  context.unite(first.expand(ids.sizes()), ids, reason);
  return first;
}

}  // namespace

void labels_broadcast(LabelContext& context) {
  const Shape& out = context.outputs[0].dims;
  const std::string reason = fmt::format("{} joins it with what has no channels", describe(context.node));
  std::vector<Aligned> operands(context.inputs.size());
  for (size_t i = 0; i < operands.size(); ++i)
    if (context.has(i) && !context.is_parameter(i)) operands[i] = align(context, i, out.size());
  // A single channel that broadcasting spreads over several cannot go without them.
  const auto spread = [&](size_t i) {
    for (size_t k = 0; k < operands.size(); ++k)
      for (size_t axis = 0; axis < out.size() && k != i && operands[k].ids.defined(); ++axis)
        if (operands[i].dims[axis] == 1 && operands[k].ids.size(static_cast<int64_t>(axis)) > 1) return true;
    return false;
  };
  at::Tensor result;  // ids of the output, united over the operands
  for (size_t i = 0; i < operands.size(); ++i) {
    const at::Tensor& ids = operands[i].ids;
    if (!ids.defined()) continue;
    if (spread(i)) {
      context.freeze(ids, fmt::format("{} spreads it over other channels", describe(context.node)));
    } else if (!result.defined()) {
      result = ids;
    } else {
      context.unite(result, ids, reason);
      result = at::broadcast_tensors({result, ids})[0];
    }
  }
  if (!result.defined()) return;
  // What is spread stays, so it keeps those it meets side by side.
  for (size_t i = 0; i < operands.size(); ++i)
    for (size_t axis = 0; axis < out.size() && operands[i].ids.defined() && spread(i); ++axis)
      if (operands[i].dims[axis] > 1 && result.size(static_cast<int64_t>(axis)) > 1)
        context.freeze(result, fmt::format("{} joins it with channels that stay", describe(context.node)));
  // Operands without ids: parameters take slots where they are as long as the channel axis; others freeze it.
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    if (!context.has(i) || (!context.is_parameter(i) && context.ids(i).defined())) continue;
    const Shape& dims = context.inputs[i].dims;
    const size_t missing = out.size() - dims.size();
    result = tied_inside_heads(context, result, dims, reason);
    for (size_t axis = 0; axis < out.size(); ++axis) {
      const auto a = static_cast<int64_t>(axis);
      if (result.size(a) == 1 || axis < missing || dims[axis - missing] == 1) continue;
      if (!context.is_parameter(i))
        context.freeze(result, reason);
      else
        context.slot(i, a - static_cast<int64_t>(missing), context.along(result, out, a), SlotRole::pass);
    }
  }
  context.set(0, result);
}

void labels_by_execution(LabelContext& context, EvaluateFunction evaluate) {
  if (!context.ids(0).defined()) return;
  std::vector<at::Tensor> operands = {context.expanded(0)};
  for (size_t i = 1; i < context.inputs.size(); ++i) {
    if (context.has(i) && !context.is_parameter(i))
      return context.freeze_inputs(
          fmt::format("{} takes a shape that is computed when it runs", describe(context.node)));
    operands.push_back(context.has(i) ? context.value(i) : at::Tensor());
  }
  const auto results = evaluate({.node = context.node, .inputs = operands});
  for (size_t i = 0; i < results.size(); ++i)
    if (!results[i].eq(kUnlabelled).all().item<bool>()) context.set(i, results[i]);
}

void labels_mixed_along(LabelContext& context, const std::vector<int64_t>& axes) {
  const at::Tensor& ids = context.ids(0);
  if (!ids.defined()) return;
  for (const int64_t axis : axes)
    if (ids.size(axis) > 1) return context.freeze(ids, fmt::format("{} mixes all channels", describe(context.node)));
  context.set(0, ids);
}

void labels_alike_along(LabelContext& context, const std::vector<int64_t>& axes) {
  const at::Tensor& ids = context.ids(0);
  if (!context.for_exchange() || !ids.defined()) return labels_mixed_along(context, axes);
  int64_t along = 1;
  for (const int64_t axis : axes) along *= ids.size(axis);
  if (along > 1 && along != ids.numel()) return labels_mixed_along(context, axes);
  if (along > 1) context.keep(ids, fmt::format("{} mixes all channels", describe(context.node)));
  context.set(0, ids);
}

}  // namespace pare
