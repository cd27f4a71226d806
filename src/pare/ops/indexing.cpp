// Operators on positions: OneHot, NonZero, Compress, Trilu, EyeLike, ReverseSequence. Gathering and scattering have
// files of their own.
#include <ATen/ATen.h>

#include <algorithm>

#include "pare/ops/common.h"
#include "pare/ops/dtype.h"
#include "pare/ops/families.h"
#include "pare/ops/indices.h"
#include "pare/ops/subfamilies.h"

namespace pare {
namespace {
namespace indexing {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// --- OneHot

// The depth, which may come as any type of number and as a list of one.
int64_t depth_of(const Node& node, const Tensor& depth) {
  const double value = depth.numel() == 1 ? depth.to(at::kDouble).item<double>() : -1;
  if (!(value >= 0 && value < 1e15)) throw Error(ErrorKind::format, describe(node), "depth is not a count");
  return static_cast<int64_t>(value);
}

// Where the new axis goes: it is an axis of the output, which has one more than the indices.
int64_t new_axis(const Node& node, int64_t rank) { return normalized_axis(node.integer("axis", -1), rank + 1, node); }

// Negative indices count from the end; those outside [-depth, depth) are "off" everywhere.
Tensors one_hot(const EvalContext& context) {
  Tensor indices = context.in(0).to(at::kLong);
  const int64_t depth = depth_of(context.node, context.in(1));
  const Tensor& values = context.in(2);
  if (values.dim() != 1 || values.numel() != 2)
    throw Error(ErrorKind::shape, describe(context.node), "values are {}, expected [2]", to_string(values.sizes()));
  const int64_t axis = new_axis(context.node, indices.dim());
  indices = at::where(indices < 0, indices + depth, indices).unsqueeze(axis);
  Shape dims(static_cast<size_t>(indices.dim()), 1);
  dims[static_cast<size_t>(axis)] = depth;
  const Tensor on = indices == at::arange(depth, at::kLong).reshape(dims);
  return {at::where(on, values[1], values[0])};
}

std::vector<TensorType> infer_one_hot(const InferContext& context) {
  context.in(1);
  if (!context.values[1].defined()) throw UnknownValue{};
  Shape dims = context.in(0).dims;
  dims.insert(dims.begin() + new_axis(context.node, context.in(0).rank()), depth_of(context.node, context.values[1]));
  return {{context.in(2).dtype, dims}};
}

// --- NonZero and Compress: how many there are is in the data

Tensors non_zero(const EvalContext& context) { return {at::nonzero(context.in(0)).t().contiguous()}; }

std::vector<TensorType> infer_non_zero(const InferContext& /*context*/) { throw UnknownValue{}; }

// Positions along an axis of `extent` entries where the condition holds; it may be shorter than the axis.
Tensor chosen(const Node& node, const Tensor& condition, int64_t extent) {
  if (condition.dim() != 1)
    throw Error(ErrorKind::shape, describe(node), "the condition is {}, expected a list", to_string(condition.sizes()));
  return checked_indices(at::nonzero(condition).flatten(), extent, node);
}

Tensors compress(const EvalContext& context) {
  const bool flat = !context.node.has("axis");
  const Tensor x = flat ? context.in(0).flatten() : context.in(0);
  if (x.dim() == 0) throw Error(ErrorKind::shape, describe(context.node), "takes entries of a single number");
  const int64_t axis = flat ? 0 : normalized_axis(context.node.integer("axis", 0), x.dim(), context.node);
  return {x.index_select(axis, chosen(context.node, context.in(1), x.size(axis)))};
}

std::vector<TensorType> infer_compress(const InferContext& context) {
  TensorType type = context.in(0);
  context.in(1);
  if (!context.values[1].defined()) throw UnknownValue{};
  if (!context.node.has("axis")) type.dims = {type.count()};
  auto& extent =
      type.dims.at(static_cast<size_t>(normalized_axis(context.node.integer("axis", 0), type.rank(), context.node)));
  extent = chosen(context.node, context.values[1], extent).numel();
  return {type};
}

// --- Trilu and EyeLike

// A diagonal beyond the matrix's corners is as good as one at them.
int64_t diagonal_within(int64_t k, int64_t rows, int64_t columns) { return std::clamp(k, -rows - 1, columns + 1); }

Tensors trilu(const EvalContext& context) {
  const Tensor& x = context.in(0);
  if (x.dim() < 2)
    throw Error(ErrorKind::shape, describe(context.node), "expected matrices, found {}", to_string(x.sizes()));
  const Shape list = context.has(1) ? context.integers(1) : Shape{0};
  if (list.size() != 1)
    throw Error(ErrorKind::format, describe(context.node), "k is {}, expected one number", to_string(list));
  if (x.numel() == 0) return {x};
  const int64_t k = diagonal_within(list[0], x.size(-2), x.size(-1));
  return {context.node.integer("upper", 1) != 0 ? at::triu(x, k) : at::tril(x, k)};
}

void labels_trilu(LabelContext& context) {
  const int64_t rank = context.inputs[0].rank();
  if (rank >= 2) labels_mixed_along(context, {rank - 2, rank - 1});
}

Tensors eye_like(const EvalContext& context) {
  const Tensor& x = context.in(0);
  if (x.dim() != 2)
    throw Error(ErrorKind::shape, describe(context.node), "expected a matrix, found {}", to_string(x.sizes()));
  const auto dtype =
      context.node.has("dtype") ? dtype_from_onnx(context.node.integer("dtype", 1), context.node) : x.scalar_type();
  const int64_t k = diagonal_within(context.node.integer("k", 0), x.size(0), x.size(1));
  const Tensor row = at::arange(x.size(0), at::kLong).unsqueeze(1);
  return {(at::arange(x.size(1), at::kLong) == row + k).to(dtype)};
}

std::vector<TensorType> infer_eye_like(const InferContext& context) {
  TensorType type = context.in(0);
  if (context.node.has("dtype")) type.dtype = dtype_from_onnx(context.node.integer("dtype", 1), context.node);
  return {type};
}

// --- ReverseSequence

struct SequenceAxes {
  int64_t time;
  int64_t batch;
};

SequenceAxes sequence_axes(const Node& node, int64_t rank) {
  const SequenceAxes axes{normalized_axis(node.integer("time_axis", 0), rank, node),
                          normalized_axis(node.integer("batch_axis", 1), rank, node)};
  if (rank < 2 || axes.time == axes.batch)
    throw Error(ErrorKind::format, describe(node), "time axis {} and batch axis {} of {} axes", axes.time, axes.batch,
                rank);
  return axes;
}

// The first `length` entries along the time axis in the opposite order, the others as they are.
Tensors reverse_sequence(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const auto axes = sequence_axes(context.node, x.dim());
  const int64_t steps = x.size(axes.time);
  const Tensor length = context.in(1).to(at::kLong);
  if (length.dim() != 1 || length.numel() != x.size(axes.batch))
    throw Error(ErrorKind::shape, describe(context.node), "{} lengths for {} sequences", length.numel(),
                x.size(axes.batch));
  if (x.numel() == 0) return {x};
  if (length.min().item<int64_t>() < 0 || length.max().item<int64_t>() > steps)
    throw Error(ErrorKind::format, describe(context.node), "a length is outside [0, {}]", steps);
  Shape along_time(static_cast<size_t>(x.dim()), 1);
  Shape along_batch = along_time;
  along_time[static_cast<size_t>(axes.time)] = steps;
  along_batch[static_cast<size_t>(axes.batch)] = x.size(axes.batch);
  const Tensor t = at::arange(steps, at::kLong).reshape(along_time);
  const Tensor end = length.reshape(along_batch);
  return {at::gather(x, axes.time, at::where(t < end, end - 1 - t, t).expand(x.sizes()))};
}

void labels_reverse_sequence(LabelContext& context) {
  const auto axes = sequence_axes(context.node, context.inputs[0].rank());
  labels_mixed_along(context, {axes.time, axes.batch});
}

constexpr OpDef kOps[] = {
    {.type = "OneHot",
     .attributes = "axis",
     .since = 11,
     .min_inputs = 3,
     .max_inputs = 3,
     .evaluate = one_hot,
     .infer = infer_one_hot,
     .cost = cost_none,
     .labels = labels_frozen,
     .traits = {.typed_like = 2}},
    {.type = "NonZero",
     .since = 9,
     .min_inputs = 1,
     .max_inputs = 1,
     .evaluate = non_zero,
     .infer = infer_non_zero,
     .cost = cost_none,
     .labels = labels_frozen},
    {.type = "Compress",
     .attributes = "axis",
     .since = 11,
     .min_inputs = 2,
     .max_inputs = 2,
     .evaluate = compress,
     .infer = infer_compress,
     .cost = cost_none,
     .labels = labels_frozen},
    {.type = "Trilu",
     .attributes = "upper",
     .since = 14,
     .min_inputs = 1,
     .max_inputs = 2,
     .evaluate = trilu,
     .infer = infer_same,
     .cost = cost_none,
     .labels = labels_trilu},
    {.type = "EyeLike",
     .attributes = "dtype k",
     .since = 9,
     .min_inputs = 1,
     .max_inputs = 1,
     .evaluate = eye_like,
     .infer = infer_eye_like,
     .cost = cost_none,
     .labels = labels_frozen},
    {.type = "ReverseSequence",
     .attributes = "batch_axis time_axis",
     .since = 10,
     .min_inputs = 2,
     .max_inputs = 2,
     .evaluate = reverse_sequence,
     .infer = infer_same,
     .cost = cost_none,
     .labels = labels_reverse_sequence},
};

}  // namespace indexing
}  // namespace

std::span<const OpDef> indexing_ops() {
  static const std::vector<OpDef> all = joined({gather_ops(), scatter_ops(), counting_ops(), indexing::kOps});
  return all;
}

}  // namespace pare
