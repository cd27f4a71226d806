// Operators that order or accumulate along one axis: ArgMax, ArgMin, TopK, CumSum, CumProd.
#include <ATen/ATen.h>

#include "pare/ops/common.h"
#include "pare/ops/dtype.h"
#include "pare/ops/subfamilies.h"

namespace pare {
namespace {
namespace ranking {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// --- ArgMax and ArgMin

Tensor arg_max(const Tensor& x, int64_t axis) { return at::argmax(x, axis, /*keepdim=*/true); }
Tensor arg_min(const Tensor& x, int64_t axis) { return at::argmin(x, axis, /*keepdim=*/true); }

template <Tensor (*best)(const Tensor&, int64_t)>
Tensors arg(const EvalContext& context) {
  const Tensor x = widened(context.in(0));
  const int64_t axis = normalized_axis(context.node.integer("axis", 0), x.dim(), context.node);
  if (x.dim() == 0) return {at::zeros({}, at::kLong)};
  if (x.size(axis) == 0)
    throw Error(ErrorKind::shape, describe(context.node), "axis {} of {} is empty", axis, to_string(x.sizes()));
  Tensor y;
  if (x.numel() == 0) {
    Shape dims = x.sizes().vec();
    dims[static_cast<size_t>(axis)] = 1;
    y = at::zeros(dims, at::kLong);
  } else if (context.node.integer("select_last_index", 0) != 0) {
    y = x.size(axis) - 1 - best(x.flip(axis), axis);  // the first from the other end
  } else {
    y = best(x, axis);
  }
  return {context.node.integer("keepdims", 1) != 0 ? y : y.squeeze(axis)};
}

std::vector<TensorType> infer_arg(const InferContext& context) {
  Shape dims = context.in(0).dims;
  const int64_t axis = normalized_axis(context.node.integer("axis", 0), context.in(0).rank(), context.node);
  if (dims.empty()) return {{at::kLong, {}}};
  if (context.node.integer("keepdims", 1) != 0)
    dims[static_cast<size_t>(axis)] = 1;
  else
    dims.erase(dims.begin() + axis);
  return {{at::kLong, dims}};
}

void labels_arg(LabelContext& context) {
  const Tensor& ids = context.ids(0);
  if (!ids.defined() || ids.dim() == 0) return;
  const int64_t axis = normalized_axis(context.node.integer("axis", 0), ids.dim(), context.node);
  if (ids.size(axis) > 1)
    return context.freeze(ids, fmt::format("{} gives positions along it", describe(context.node)));
  context.set(0, context.node.integer("keepdims", 1) != 0 ? ids : ids.squeeze(axis));
}

// --- TopK

int64_t top_k_axis(const Node& node, int64_t rank) {
  if (rank == 0) throw Error(ErrorKind::shape, describe(node), "ranks a single number");
  return normalized_axis(node.integer("axis", -1), rank, node);
}

int64_t top_k_count(const Node& node, const Shape& list, int64_t extent) {
  if (list.size() != 1 || list[0] < 0 || list[0] > extent)
    throw Error(ErrorKind::format, describe(node), "k is {}, but the axis has {} entries", to_string(list), extent);
  return list[0];
}

// A stable sort, because of two equal entries the one with the lower index comes first.
Tensors top_k(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const int64_t axis = top_k_axis(context.node, x.dim());
  const int64_t k = top_k_count(context.node, context.integers(1), x.size(axis));
  const bool largest = context.node.integer("largest", 1) != 0;
  const auto sorted = at::sort(widened(x), /*stable=*/true, axis, /*descending=*/largest);
  const Tensor indices = std::get<1>(sorted).narrow(axis, 0, k).contiguous();
  return {at::gather(x, axis, indices), indices};
}

std::vector<TensorType> infer_top_k(const InferContext& context) {
  Shape dims = context.in(0).dims;
  auto& extent = dims[static_cast<size_t>(top_k_axis(context.node, context.in(0).rank()))];
  extent = top_k_count(context.node, context.integers(1), extent);
  return {{context.in(0).dtype, dims}, {at::kLong, dims}};
}

void labels_top_k(LabelContext& context) {
  labels_mixed_along(context, {top_k_axis(context.node, context.inputs[0].rank())});
  if (context.outputs.size() > 1) context.out_ids[1] = context.out_ids[0];
}

Cost cost_input(const CostContext& context) { return {.flops = context.inputs[0].count()}; }

// --- CumSum and CumProd

int64_t cumulative_axis(const Node& node, const Shape& list, int64_t rank) {
  if (list.size() != 1)
    throw Error(ErrorKind::format, describe(node), "axis is {}, expected one number", to_string(list));
  return normalized_axis(list[0], rank, node);
}

Tensor sum_along(const Tensor& x, int64_t axis) { return at::cumsum(x, axis, x.scalar_type()); }
Tensor product_along(const Tensor& x, int64_t axis) { return at::cumprod(x, axis, x.scalar_type()); }

// `neutral` is what stands before the first entry.
template <Tensor (*accumulate)(const Tensor&, int64_t), int neutral>
Tensors cumulative(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const int64_t axis = cumulative_axis(context.node, context.integers(1), x.dim());
  const bool exclusive = context.node.integer("exclusive", 0) != 0;
  if (x.dim() == 0) return {exclusive ? at::full_like(x, neutral) : x};
  const bool reverse = context.node.integer("reverse", 0) != 0;
  const Tensor data = reverse ? widened(x).flip(axis) : widened(x);
  Tensor y = accumulate(data, axis);
  if (exclusive && x.size(axis) > 0)  // shifted by one place
    y = at::cat({at::full_like(y.narrow(axis, 0, 1), neutral), y.narrow(axis, 0, x.size(axis) - 1)}, axis);
  return {narrowed(reverse ? y.flip(axis) : y, x.scalar_type())};
}

void labels_cumulative(LabelContext& context) {
  if (!context.ids(0).defined()) return;
  if (!context.value(1).defined())
    return context.freeze_inputs(
        fmt::format("{} takes an axis that is only known when it runs", describe(context.node)));
  const int64_t axis = context.value(1).to(at::kLong).flatten()[0].item<int64_t>();
  labels_mixed_along(context, {normalized_axis(axis, context.inputs[0].rank(), context.node)});
}

constexpr OpDef kOps[] = {
    {.type = "ArgMax",
     .attributes = "axis keepdims select_last_index",
     .since = 12,
     .min_inputs = 1,
     .max_inputs = 1,
     .evaluate = arg<arg_max>,
     .infer = infer_arg,
     .cost = cost_input,
     .labels = labels_arg},
    {.type = "ArgMin",
     .attributes = "axis keepdims select_last_index",
     .since = 12,
     .min_inputs = 1,
     .max_inputs = 1,
     .evaluate = arg<arg_min>,
     .infer = infer_arg,
     .cost = cost_input,
     .labels = labels_arg},
    {.type = "TopK",
     .attributes = "axis largest sorted",
     .since = 11,
     .min_inputs = 2,
     .max_inputs = 2,
     .evaluate = top_k,
     .infer = infer_top_k,
     .cost = cost_input,
     .labels = labels_top_k},
    {.type = "CumSum",
     .attributes = "exclusive reverse",
     .since = 11,
     .min_inputs = 2,
     .max_inputs = 2,
     .evaluate = cumulative<sum_along, 0>,
     .infer = infer_same,
     .cost = cost_elementwise,
     .labels = labels_cumulative},
    {.type = "CumProd",
     .attributes = "exclusive reverse",
     .since = 26,
     .min_inputs = 2,
     .max_inputs = 2,
     .evaluate = cumulative<product_along, 1>,
     .infer = infer_same,
     .cost = cost_elementwise,
     .labels = labels_cumulative},
};

}  // namespace ranking
}  // namespace

std::span<const OpDef> ranking_ops() { return ranking::kOps; }

}  // namespace pare
