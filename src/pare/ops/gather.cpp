// Reading by index: Gather, GatherElements, GatherND.
#include <ATen/ATen.h>

#include "pare/ops/common.h"
#include "pare/ops/indices.h"
#include "pare/ops/subfamilies.h"

namespace pare {
namespace {
namespace gather {

using at::Tensor;
using Tensors = std::vector<Tensor>;

int64_t axis_of(const Node& node, int64_t rank) {
  if (rank == 0) throw Error(ErrorKind::shape, describe(node), "takes entries of a single number");
  return normalized_axis(node.integer("axis", 0), rank, node);
}

// --- Gather

// `dims` with the axis replaced by the extents of the indices.
Shape gathered_dims(at::IntArrayRef dims, int64_t axis, at::IntArrayRef indices) {
  Shape result(dims.begin(), dims.begin() + axis);
  result.insert(result.end(), indices.begin(), indices.end());
  result.insert(result.end(), dims.begin() + axis + 1, dims.end());
  return result;
}

Tensors gather(const EvalContext& context) {
  const Tensor& data = context.in(0);
  const Tensor& indices = context.in(1);
  const int64_t axis = axis_of(context.node, data.dim());
  const Tensor list = checked_indices(indices, data.size(axis), context.node).flatten();
  return {data.index_select(axis, list).reshape(gathered_dims(data.sizes(), axis, indices.sizes()))};
}

std::vector<TensorType> infer_gather(const InferContext& context) {
  const TensorType& data = context.in(0);
  return {{data.dtype, gathered_dims(data.dims, axis_of(context.node, data.rank()), context.in(1).dims)}};
}

// An embedding: the columns of the table are channels that it makes.
void labels_embedding(LabelContext& context) {
  const bool floating = at::isFloatingType(context.inputs[0].dtype);
  if (!floating || context.inputs[0].rank() != 2 || axis_of(context.node, 2) != 0) return;
  const auto ids = context.make(context.inputs[0].dims[1]);
  context.slot(0, 1, ids, SlotRole::producer);
  context.set(0, ids, context.outputs[0].rank() - 1);
}

void labels_gather(LabelContext& context) {
  if (context.ids(1).defined())
    context.freeze(context.ids(1), fmt::format("{} reads it as indices", describe(context.node)));
  const Tensor& ids = context.ids(0);
  if (!ids.defined()) {
    if (context.is_parameter(0)) labels_embedding(context);
    return;
  }
  const int64_t axis = axis_of(context.node, ids.dim());
  const Shape ones(context.inputs[1].dims.size(), 1);
  if (ids.size(axis) == 1) return context.set(0, ids.reshape(gathered_dims(ids.sizes(), axis, ones)));
  if (!context.value(1).defined() || ones.size() > 1)
    return context.freeze(ids,
                          fmt::format("{} picks from it by indices that cannot be renumbered", describe(context.node)));
  const Tensor list = checked_indices(context.value(1), ids.size(axis), context.node).flatten();
  const Tensor picked = ids.index_select(axis, list);
  if (ones.empty()) {  // one channel alone: it has to stay, but its number may change
    if (picked.numel() == 1) return context.freeze(picked, fmt::format("{} picks it alone", describe(context.node)));
    return context.set(0, picked.squeeze(axis));
  }
  context.set(0, picked);
}

// The old indices of removed channels are dropped, the others renumbered.
void rewrite_gather(RewriteContext& context) {
  const int64_t axis = axis_of(context.node, context.inputs[0].rank());
  const auto extent = context.inputs[0].dims[static_cast<size_t>(axis)];
  const Shape kept = context.kept_in(0, axis);
  if (static_cast<int64_t>(kept.size()) == extent) return;
  if (!context.graph.is_constant(context.node.inputs[1]))
    throw Error(ErrorKind::unsupported, describe(context.node),
                "takes computed indices into channels that were removed");
  const Tensor& old = context.graph.tensor(context.node.inputs[1]);
  Shape renumbered(static_cast<size_t>(extent), -1);
  for (size_t i = 0; i < kept.size(); ++i) renumbered[static_cast<size_t>(kept[i])] = static_cast<int64_t>(i);
  const Tensor list = checked_indices(old, extent, context.node).flatten().contiguous();
  Shape indices;
  for (int64_t i = 0; i < list.numel(); ++i) {
    const int64_t index = renumbered[static_cast<size_t>(list.data_ptr<int64_t>()[i])];
    if (index >= 0) indices.push_back(index);
  }
  const Tensor result = at::tensor(indices, at::kLong).to(old.scalar_type());
  context.replace(1, old.dim() == 0 ? result.reshape({}) : result);
}

// --- GatherElements

void check_elements(const Node& node, at::IntArrayRef data, at::IntArrayRef indices, int64_t axis) {
  bool fits = data.size() == indices.size();
  for (size_t i = 0; fits && i < data.size(); ++i) fits = static_cast<int64_t>(i) == axis || indices[i] <= data[i];
  if (!fits)
    throw Error(ErrorKind::shape, describe(node), "indices {} do not fit data {}", to_string(indices), to_string(data));
}

Tensors gather_elements(const EvalContext& context) {
  const Tensor& data = context.in(0);
  const int64_t axis = axis_of(context.node, data.dim());
  check_elements(context.node, data.sizes(), context.in(1).sizes(), axis);
  return {at::gather(data, axis, checked_indices(context.in(1), data.size(axis), context.node))};
}

std::vector<TensorType> infer_elements(const InferContext& context) {
  const TensorType& data = context.in(0);
  check_elements(context.node, data.dims, context.in(1).dims, axis_of(context.node, data.rank()));
  return {{data.dtype, context.in(1).dims}};
}

// --- GatherND

// The output's extents: those of the indices but the last, then what a tuple does not index.
Shape nd_dims(const Node& node, at::IntArrayRef data, at::IntArrayRef indices, int64_t batch) {
  const auto rank = static_cast<int64_t>(data.size());
  const auto index_rank = static_cast<int64_t>(indices.size());
  bool fits = rank >= 1 && index_rank >= 1 && batch >= 0 && batch < index_rank && batch < rank;
  if (fits) fits = indices.back() >= 0 && batch + indices.back() <= rank;
  for (int64_t i = 0; fits && i < batch; ++i) fits = data[static_cast<size_t>(i)] == indices[static_cast<size_t>(i)];
  if (!fits)
    throw Error(ErrorKind::shape, describe(node), "indices {} with {} batch axes do not fit data {}",
                to_string(indices), batch, to_string(data));
  Shape dims(indices.begin(), indices.end() - 1);
  dims.insert(dims.end(), data.begin() + batch + indices.back(), data.end());
  return dims;
}

Tensors gather_nd(const EvalContext& context) {
  const Tensor& data = context.in(0);
  const Tensor& tuples = context.in(1);
  const int64_t batch = context.node.integer("batch_dims", 0);
  const Shape dims = nd_dims(context.node, data.sizes(), tuples.sizes(), batch);
  int64_t batches = 1;  // product of the batch axes
  int64_t places = 1;   // of the indexed axes
  int64_t tail = 1;     // of the others
  for (int64_t i = 0; i < data.dim(); ++i)
    (i < batch ? batches : i < batch + tuples.size(-1) ? places : tail) *= data.size(i);
  const Tensor within = flat_positions(tuples, data.sizes(), batch, context.node);
  if (within.numel() == 0) return {at::empty(dims, data.options())};
  Tensor position = within.reshape({batches, -1}) + at::arange(batches, at::kLong).unsqueeze(1) * places;
  return {data.reshape({batches * places, tail}).index_select(0, position.flatten()).reshape(dims)};
}

std::vector<TensorType> infer_nd(const InferContext& context) {
  const TensorType& data = context.in(0);
  return {{data.dtype, nd_dims(context.node, data.dims, context.in(1).dims, context.node.integer("batch_dims", 0))}};
}

constexpr OpDef kOps[] = {
    {.type = "Gather",
     .attributes = "axis",
     .since = 11,
     .min_inputs = 2,
     .max_inputs = 2,
     .evaluate = gather,
     .infer = infer_gather,
     .cost = cost_none,
     .labels = labels_gather,
     .rewrite = rewrite_gather,
     .traits = {.kind = OpKind::selection, .learned = {0}}},
    {.type = "GatherElements",
     .attributes = "axis",
     .since = 11,
     .min_inputs = 2,
     .max_inputs = 2,
     .evaluate = gather_elements,
     .infer = infer_elements,
     .cost = cost_none,
     .labels = labels_frozen},
    {.type = "GatherND",
     .attributes = "batch_dims",
     .since = 12,
     .min_inputs = 2,
     .max_inputs = 2,
     .evaluate = gather_nd,
     .infer = infer_nd,
     .cost = cost_none,
     .labels = labels_frozen},
};

}  // namespace gather
}  // namespace

std::span<const OpDef> gather_ops() { return gather::kOps; }

}  // namespace pare
