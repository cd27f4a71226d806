// Reductions over axes, and the determinant. Softmax and its kin, and ArgMax and its kin, have files of their own.
#include <ATen/ATen.h>

#include <algorithm>

#include "pare/ops/common.h"
#include "pare/ops/dtype.h"
#include "pare/ops/families.h"
#include "pare/ops/subfamilies.h"

namespace pare {
namespace {
namespace reduction {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// --- which axes

// The axes to reduce, ascending; nothing when the node leaves its input as it is. No list means all of them.
std::optional<Shape> axes_to_reduce(const Node& node, int64_t rank, Shape axes) {
  if (axes.empty()) {
    if (node.integer("noop_with_empty_axes", 0) != 0) return std::nullopt;
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
    return axes;
  }
  axes = normalized_axes(axes, rank, node);
  std::ranges::sort(axes);
  if (std::ranges::adjacent_find(axes) != axes.end())
    throw Error(ErrorKind::format, describe(node), "axes {} name an axis twice", to_string(axes));
  return axes;
}

bool keeps_dims(const Node& node) { return node.integer("keepdims", 1) != 0; }

// --- evaluation: a reduction gets the axes (never none) and keeps them with extent 1

Tensor reduce_sum(const Tensor& x, const Shape& axes) { return at::sum(x, axes, /*keepdim=*/true, x.scalar_type()); }

Tensor reduce_mean(const Tensor& x, const Shape& axes) {
  if (x.is_floating_point()) return at::mean(x, axes, /*keepdim=*/true);
  int64_t count = 1;
  for (const int64_t axis : axes) count *= x.size(axis);
  return at::div(at::sum(x, axes, /*keepdim=*/true, at::kLong), std::max<int64_t>(count, 1), "trunc")
      .to(x.scalar_type());
}

// ATen has no extremum of nothing: ONNX has the least (or largest) number there.
template <Tensor (*extremum)(const Tensor&, at::IntArrayRef, bool), at::Scalar (*nothing)(at::ScalarType)>
Tensor reduce_extremum(const Tensor& x, const Shape& axes) {
  Shape dims = x.sizes().vec();
  bool empty = false;
  for (const int64_t axis : axes) {
    empty = empty || dims[static_cast<size_t>(axis)] == 0;
    dims[static_cast<size_t>(axis)] = 1;
  }
  return empty ? at::full(dims, nothing(x.scalar_type()), x.options()) : extremum(x, axes, /*keepdim=*/true);
}

Tensor reduce_prod(const Tensor& x, const Shape& axes) {
  Tensor product = x;
  for (const int64_t axis : axes) product = at::prod(product, axis, /*keepdim=*/true, x.scalar_type());
  return product;
}

Tensor reduce_l1(const Tensor& x, const Shape& axes) { return reduce_sum(at::abs(x), axes); }
Tensor reduce_sum_square(const Tensor& x, const Shape& axes) { return reduce_sum(x * x, axes); }
Tensor reduce_l2(const Tensor& x, const Shape& axes) { return at::sqrt(reduce_sum_square(as_real(x), axes)); }
Tensor reduce_log_sum(const Tensor& x, const Shape& axes) { return at::log(reduce_sum(as_real(x), axes)); }
Tensor reduce_log_sum_exp(const Tensor& x, const Shape& axes) {
  return at::logsumexp(as_real(x), axes, /*keepdim=*/true);
}

template <Tensor (*reduce)(const Tensor&, const Shape&)>
Tensors evaluate(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const auto axes = axes_to_reduce(context.node, x.dim(), context.has(1) ? context.integers(1) : Shape{});
  if (!axes) return {x};
  if (x.dim() == 0) return {narrowed(reduce(widened(x).reshape({1}), {0}), x.scalar_type()).reshape({})};
  Tensor y = narrowed(reduce(widened(x), *axes), x.scalar_type());
  if (!keeps_dims(context.node))
    for (size_t i = axes->size(); i-- > 0;) y = y.squeeze((*axes)[i]);
  return {y};
}

std::vector<TensorType> infer(const InferContext& context) {
  const TensorType& in = context.in(0);
  const bool listed = context.has(1) && context.in(1).count() > 0;
  const auto axes = axes_to_reduce(context.node, in.rank(), listed ? context.integers(1) : Shape{});
  if (!axes || in.rank() == 0) return {in};
  TensorType out{in.dtype, {}};
  for (int64_t i = 0; i < in.rank(); ++i) {
    const bool reduced = std::ranges::binary_search(*axes, i);
    if (!reduced) out.dims.push_back(in.dims[static_cast<size_t>(i)]);
    if (reduced && keeps_dims(context.node)) out.dims.push_back(1);
  }
  return {out};
}

Cost cost(const CostContext& context) { return {.flops = context.inputs[0].count()}; }

// --- labels

// Ids along other axes pass. Ids along a reduced axis are tied down, unless a missing channel is as good as a zero.
template <bool zeros_do_not_count>
void labels(LabelContext& context) {
  const Tensor& ids = context.ids(0);
  if (!ids.defined()) return;
  const bool listed = context.has(1) && context.inputs[1].count() > 0;
  if (listed && !context.value(1).defined())
    return context.freeze_inputs(fmt::format("{} takes axes that are only known when it runs", describe(context.node)));
  Shape list;
  if (listed) {
    const Tensor axes = context.value(1).to(at::kLong).flatten().contiguous();
    list.assign(axes.data_ptr<int64_t>(), axes.data_ptr<int64_t>() + axes.numel());
  }
  const auto axes = axes_to_reduce(context.node, ids.dim(), list);
  if (!axes || ids.dim() == 0) return context.set(0, ids);
  int64_t reduced = 1;
  for (const int64_t axis : *axes) reduced *= ids.size(axis);
  if (reduced > 1) {
    const std::string reason = fmt::format("{} reduces over it", describe(context.node));
    if (reduced != ids.numel())
      context.freeze(ids, reason);
    else if (!zeros_do_not_count)
      context.keep(ids, reason);
    return;
  }
  Tensor result = ids;
  if (!keeps_dims(context.node))
    for (size_t i = axes->size(); i-- > 0;) result = result.squeeze((*axes)[i]);
  context.set(0, result);
}

// --- determinant

Tensors det(const EvalContext& context) {
  const Tensor& x = context.in(0);
  if (x.dim() < 2 || x.size(-1) != x.size(-2))
    throw Error(ErrorKind::shape, describe(context.node), "expected square matrices, found {}", to_string(x.sizes()));
  return {narrowed(at::det(as_real(x)), x.scalar_type())};
}

std::vector<TensorType> infer_det(const InferContext& context) {
  TensorType type = context.in(0);
  if (type.rank() < 2 || type.dims.back() != type.dims[type.dims.size() - 2])
    throw Error(ErrorKind::shape, describe(context.node), "expected square matrices, found {}", to_string(type.dims));
  type.dims.resize(type.dims.size() - 2);
  return {type};
}

// Gaussian elimination: a third of n³.
Cost cost_det(const CostContext& context) {
  const int64_t n = context.inputs[0].dims.back();
  return {.flops = context.inputs[0].count() * n * 2 / 3};
}

template <Tensor (*reduce)(const Tensor&, const Shape&)>
constexpr OpDef op(std::string_view type, int since, LabelFunction rule = labels<false>) {
  return {.type = type,
          .attributes = "keepdims noop_with_empty_axes",
          .since = since,
          .min_inputs = 1,
          .max_inputs = 2,
          .evaluate = evaluate<reduce>,
          .infer = infer,
          .cost = cost,
          .labels = rule};
}

constexpr OpDef kOps[] = {
    op<reduce_sum>("ReduceSum", 13, labels<true>).being({.kind = OpKind::average, .law = Law::linear}),
    op<reduce_l1>("ReduceL1", 18, labels<true>).being({.law = Law::homogeneous}),
    op<reduce_l2>("ReduceL2", 18, labels<true>).being({.law = Law::homogeneous}),
    op<reduce_sum_square>("ReduceSumSquare", 18, labels<true>),
    op<reduce_mean>("ReduceMean", 18).being({.kind = OpKind::average, .law = Law::average}),
    op<reduce_extremum<at::amax, lowest_of>>("ReduceMax", 18).being({.kind = OpKind::maximum, .law = Law::order}),
    op<reduce_extremum<at::amin, highest_of>>("ReduceMin", 18).being({.kind = OpKind::maximum, .law = Law::order}),
    op<reduce_prod>("ReduceProd", 18),
    op<reduce_log_sum>("ReduceLogSum", 18),
    op<reduce_log_sum_exp>("ReduceLogSumExp", 18),
    {.type = "Det",
     .since = 11,
     .min_inputs = 1,
     .max_inputs = 1,
     .evaluate = det,
     .infer = infer_det,
     .cost = cost_det,
     .labels = labels_frozen},
};

}  // namespace reduction
}  // namespace

std::span<const OpDef> reduction_ops() {
  static const std::vector<OpDef> all = joined({reduction::kOps, softmax_ops(), ranking_ops()});
  return all;
}

}  // namespace pare
