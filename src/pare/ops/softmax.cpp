// Softmax, LogSoftmax and Hardmax.
//
// Up to opset 12 these coerced their input to a matrix at `axis` and worked on its rows; the attribute flatten = 1
// marks a node that still means that.
#include <ATen/ATen.h>

#include "pare/ops/common.h"
#include "pare/ops/dtype.h"
#include "pare/ops/subfamilies.h"

namespace pare {
namespace {
namespace softmax {

using at::Tensor;
using Tensors = std::vector<Tensor>;

bool flattens(const Node& node) { return node.integer("flatten", 0) != 0; }

// The axis, or the first of the axes that become the rows of a matrix (which may be the rank: rows of one element).
int64_t axis_of(const Node& node, int64_t rank) {
  if (!flattens(node)) return normalized_axis(node.integer("axis", -1), rank, node);
  const int64_t axis = node.integer("axis", 1);
  return axis == rank ? rank : normalized_axis(axis, rank, node);
}

Tensor soft(const Tensor& x, int64_t axis) { return at::softmax(x, axis); }
Tensor log_soft(const Tensor& x, int64_t axis) { return at::log_softmax(x, axis); }

// One at the first of the largest entries, zero elsewhere.
Tensor hard(const Tensor& x, int64_t axis) {
  if (x.numel() == 0) return x;
  return at::zeros_like(x).scatter(axis, at::argmax(x, axis, /*keepdim=*/true), 1);
}

template <Tensor (*function)(const Tensor&, int64_t)>
Tensors evaluate(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const int64_t axis = axis_of(context.node, x.dim());
  if (x.numel() == 0) return {x};
  const Tensor data = widened(x);
  if (!flattens(context.node) && x.dim() > 0) return {narrowed(function(data, axis), x.scalar_type())};
  int64_t rows = 1;
  for (int64_t i = 0; i < axis && i < x.dim(); ++i) rows *= x.size(i);
  const Tensor matrix = data.reshape({rows, x.numel() / rows});
  return {narrowed(function(matrix, 1).reshape(x.sizes()), x.scalar_type())};
}

std::vector<TensorType> infer(const InferContext& context) {
  axis_of(context.node, context.in(0).rank());
  return {context.in(0)};
}

// An exponential, a sum and a division for each element.
Cost cost(const CostContext& context) { return {.flops = 3 * context.outputs[0].count()}; }

// Which of several largest entries is the first depends on their order.
template <bool in_any_order>
void labels(LabelContext& context) {
  const int64_t rank = context.inputs[0].rank();
  if (rank == 0) return labels_same(context);
  Shape axes{axis_of(context.node, rank)};
  if (flattens(context.node)) {
    const int64_t first = axes[0];
    axes.clear();
    for (int64_t i = first; i < rank; ++i) axes.push_back(i);
  }
  in_any_order ? labels_alike_along(context, axes) : labels_mixed_along(context, axes);
}

template <Tensor (*function)(const Tensor&, int64_t), bool in_any_order = true>
constexpr OpDef op(std::string_view type) {
  return {.type = type,
          .since = 13,
          .min_inputs = 1,
          .max_inputs = 1,
          .evaluate = evaluate<function>,
          .infer = infer,
          .cost = cost,
          .labels = labels<in_any_order>};
}

constexpr OpDef kOps[] = {
    op<soft>("Softmax").taking("axis").being({.kind = OpKind::softmax, .probabilities = true, .gate = true}),
    op<log_soft>("LogSoftmax").taking("axis").being({.kind = OpKind::softmax, .probabilities = true}),
    op<hard, false>("Hardmax").taking("axis")};

}  // namespace softmax
}  // namespace

std::span<const OpDef> softmax_ops() { return softmax::kOps; }

}  // namespace pare
