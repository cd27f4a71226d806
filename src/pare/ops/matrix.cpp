// Matrix products: Gemm and MatMul; Einsum is in a file of its own.
#include <ATen/ATen.h>

#include "pare/ops/common.h"
#include "pare/ops/families.h"
#include "pare/ops/subfamilies.h"

namespace pare {
namespace {
namespace matrix {

using Tensors = std::vector<at::Tensor>;
using at::Tensor;

Tensors gemm(const EvalContext& context) {
  const Node& node = context.node;
  Tensor a = context.in(0);
  Tensor b = context.in(1);
  if (a.dim() != 2 || b.dim() != 2)
    throw Error(ErrorKind::shape, describe(node), "operands {} and {} are not matrices", to_string(a.sizes()),
                to_string(b.sizes()));
  if (node.integer("transA", 0) != 0) a = a.t();
  if (node.integer("transB", 0) != 0) b = b.t();
  const double alpha = node.real("alpha", 1.0);
  const double beta = node.real("beta", 1.0);
  if (!context.has(2)) return {alpha == 1.0 ? at::mm(a, b) : at::mm(a, b) * alpha};
  return {at::addmm(context.in(2), a, b, beta, alpha)};
}

std::vector<TensorType> infer_gemm(const InferContext& context) {
  const TensorType& a = context.in(0);
  const TensorType& b = context.in(1);
  if (a.rank() != 2 || b.rank() != 2)
    throw Error(ErrorKind::shape, describe(context.node), "operands {} and {} are not matrices", to_string(a.dims),
                to_string(b.dims));
  const bool ta = context.node.integer("transA", 0) != 0;
  const bool tb = context.node.integer("transB", 0) != 0;
  if (a.dims[ta ? 0 : 1] != b.dims[tb ? 1 : 0])
    throw Error(ErrorKind::shape, describe(context.node), "{} columns meet {} rows", a.dims[ta ? 0 : 1],
                b.dims[tb ? 1 : 0]);
  return {{a.dtype, {a.dims[ta ? 1 : 0], b.dims[tb ? 0 : 1]}}};
}

Cost cost_gemm(const CostContext& context) {
  const bool ta = context.node.integer("transA", 0) != 0;
  const int64_t macs = context.outputs[0].count() * context.inputs[0].dims[ta ? 0 : 1];
  return {.macs = macs, .flops = 2 * macs};
}

void labels_gemm(LabelContext& context) {
  if (!context.is_parameter(1) || context.node.integer("transA", 0) != 0)
    return context.freeze_inputs(fmt::format("{} multiplies two computed values", describe(context.node)));
  const bool tb = context.node.integer("transB", 0) != 0;
  context.slot(1, tb ? 1 : 0, context.along(0, 1), SlotRole::consumer);
  const auto out = context.make(context.outputs[0].dims[1]);
  context.slot(1, tb ? 0 : 1, out, SlotRole::producer);
  if (context.has(2)) {
    const Shape& c = context.inputs[2].dims;
    if (context.is_parameter(2)) {
      if (!c.empty() && c.back() > 1) context.slot(2, static_cast<int64_t>(c.size()) - 1, out, SlotRole::producer);
    } else {
      context.freeze(out, fmt::format("{} adds a computed value", describe(context.node)));
      context.freeze(context.ids(2), fmt::format("{} adds it to a product", describe(context.node)));
    }
  }
  context.set(0, out, 1);
}

Tensors matmul(const EvalContext& context) { return {at::matmul(context.in(0), context.in(1))}; }

std::vector<TensorType> infer_matmul(const InferContext& context) {
  Shape a = context.in(0).dims;
  Shape b = context.in(1).dims;
  if (a.empty() || b.empty()) throw Error(ErrorKind::shape, describe(context.node), "an operand is a scalar");
  const bool row = a.size() == 1;
  const bool column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  if (a.back() != b[b.size() - 2])
    throw Error(ErrorKind::shape, describe(context.node), "{} columns meet {} rows", a.back(), b[b.size() - 2]);
  Shape y = broadcast_dims({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2}, context.node);
  if (!row) y.push_back(a[a.size() - 2]);
  if (!column) y.push_back(b.back());
  return {{context.in(0).dtype, y}};
}

Cost cost_matmul(const CostContext& context) {
  const Shape& a = context.inputs[0].dims;
  const int64_t macs = context.outputs[0].count() * (a.empty() ? 1 : a.back());
  return {.macs = macs, .flops = 2 * macs};
}

bool varies(const Tensor& ids, int64_t axis) {
  const int64_t a = axis < 0 ? axis + ids.dim() : axis;
  return ids.defined() && a >= 0 && a < ids.dim() && ids.size(a) > 1;
}

bool varies_in_batch(const Tensor& ids) {
  for (int64_t axis = 0; ids.defined() && axis < ids.dim() - 2; ++axis)
    if (ids.size(axis) > 1) return true;
  return false;
}

// x · W with a constant W. Channels of x along the last axis are summed over; the columns of W make new ones. When x
// carries channels along another axis they go on, and the columns of W stay.
void labels_times_parameter(LabelContext& context) {
  const int64_t rank = context.inputs[0].rank();
  const int64_t w = context.inputs[1].rank();
  const Tensor& ids = context.ids(0);
  const bool last = varies(ids, rank - 1);
  if (ids.defined() && !last) {
    if (w != 2) return context.freeze_inputs(fmt::format("{} multiplies it in batches", describe(context.node)));
    return context.set(0, ids);
  }
  context.slot(1, w == 1 ? 0 : w - 2, context.along(0, rank - 1), SlotRole::consumer);
  if (w == 1) return;
  const auto out = context.make(context.outputs[0].dims.back());
  context.slot(1, w - 1, out, SlotRole::producer);
  context.set(0, out, context.outputs[0].rank() - 1);
}

// W · x with a constant W: the mirror image.
void labels_parameter_times(LabelContext& context) {
  const int64_t rank = context.inputs[1].rank();
  const int64_t w = context.inputs[0].rank();
  const Tensor& ids = context.ids(1);
  if (rank < 2 || w != 2)
    return context.freeze_inputs(fmt::format("{} multiplies it from the left", describe(context.node)));
  if (ids.defined() && !varies(ids, rank - 2)) return context.set(0, ids);
  context.slot(0, 1, context.along(1, rank - 2), SlotRole::consumer);
  const auto out = context.make(context.outputs[0].dims[static_cast<size_t>(rank - 2)]);
  context.slot(0, 0, out, SlotRole::producer);
  context.set(0, out, rank - 2);
}

// One id per batch entry (a head of attention): everything inside an entry is united. [batch…, 1, 1]
Tensor ids_per_batch(LabelContext& context, size_t input, const std::string& reason) {
  const Tensor& ids = context.ids(input);
  Tensor first = ids.narrow(-1, 0, 1).narrow(-2, 0, 1);
  context.unite(first.expand(ids.sizes()), ids, reason);
  return first;
}

// The only batch axis along which both operands carry channels, −1 where heads are not as simple as that.
int64_t head_axis(const LabelContext& context) {
  const Tensor& a = context.ids(0);
  const Tensor& b = context.ids(1);
  int64_t axis = -1;
  for (int64_t k = 0; k < std::max(a.dim(), b.dim()) - 2; ++k) {
    if (!varies(a, k) && !varies(b, k)) continue;
    if (axis >= 0 || a.dim() != b.dim() || !varies(a, k) || !varies(b, k)) return -1;
    axis = k;
  }
  return axis;
}

std::vector<int64_t> listed(const Tensor& ids) {
  const Tensor flat = ids.contiguous();
  return {flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel()};
}

// Heads in an exchange: what meets in a head moves with it, and inside it channels along the summed axis are united
// pairwise. A product that leaves no channels but the heads (scores) gets an id for each.
void labels_heads(LabelContext& context, int64_t axis, const std::string& reason) {
  const Tensor& a = context.ids(0);
  const Tensor& b = context.ids(1);
  const int64_t heads = a.size(axis);
  const auto matrix_dims = [](const TensorType& type) { return Shape(type.dims.end() - 2, type.dims.end()); };
  const auto head = [&](const Tensor& ids, int64_t h) {
    return ids.select(axis, h).reshape({ids.size(-2), ids.size(-1)});
  };
  const bool inner = varies(a, -1) || varies(b, -2);
  const bool rows = !inner && varies(a, -2);
  const bool columns = !inner && varies(b, -1);
  if (rows && columns) context.freeze(b, fmt::format("{} crosses two kinds of channels", describe(context.node)));
  const auto scores = inner ? context.make(heads) : std::vector<int64_t>{};
  for (int64_t h = 0; h < heads; ++h) {
    if (inner)
      context.unite(context.along(head(a, h), matrix_dims(context.inputs[0]), 1),
                    context.along(head(b, h), matrix_dims(context.inputs[1]), 0), reason);
    auto ids = listed(head(a, h));
    const auto others = listed(head(b, h));
    ids.insert(ids.end(), others.begin(), others.end());
    if (inner) ids.push_back(scores[static_cast<size_t>(h)]);
    context.block(std::move(ids));
  }
  if (inner) return context.set(0, scores, axis);
  context.set(0, columns && !rows ? b : a);
}

// A · B of two computed values. Where batch axes carry channels (heads), a head lives or dies as a whole; otherwise the
// channels along the summed axis are united pairwise and those along the outer axes go on.
void labels_product(LabelContext& context) {
  const Tensor& a = context.ids(0);
  const Tensor& b = context.ids(1);
  if (!a.defined() && !b.defined()) return;
  const std::string reason = fmt::format("{} multiplies it by what has no channels", describe(context.node));
  const int64_t rank_a = context.inputs[0].rank();
  const int64_t rank_b = context.inputs[1].rank();
  if (rank_a < 2 || rank_b < 2) return context.freeze_inputs(reason);
  // By dimension: what lies in all heads at the same place goes together.
  const bool in_heads = varies(a, -1) || varies(a, -2) || varies(b, -1) || varies(b, -2);
  if ((varies_in_batch(a) || varies_in_batch(b)) && !(context.by_dimension() && in_heads)) {
    if (!a.defined() || !b.defined()) return context.freeze_inputs(reason);
    if (context.for_exchange())
      if (const int64_t axis = head_axis(context); axis >= 0) return labels_heads(context, axis, reason);
    const Tensor heads_a = ids_per_batch(context, 0, reason);
    const Tensor heads_b = ids_per_batch(context, 1, reason);
    context.unite(heads_a, heads_b, reason);
    return context.set(0, heads_a.dim() >= heads_b.dim() ? heads_a : heads_b);
  }
  if (varies(a, -1) || varies(b, -2)) {
    const auto inner_a = context.along(0, rank_a - 1);
    const auto inner_b = context.along(1, rank_b - 2);
    return context.unite(inner_a, inner_b, reason);
  }
  const int64_t out = context.outputs[0].rank();
  if (varies(a, -2) && varies(b, -1))
    context.freeze(b, fmt::format("{} crosses two kinds of channels", describe(context.node)));
  if (varies(a, -2)) return context.set(0, context.along(0, rank_a - 2), out - 2);
  if (varies(b, -1)) return context.set(0, context.along(1, rank_b - 1), out - 1);
}

void labels_matmul(LabelContext& context) {
  if (context.is_parameter(0) && context.is_parameter(1)) return;
  if (context.is_parameter(1)) return labels_times_parameter(context);
  if (context.is_parameter(0)) return labels_parameter_times(context);
  labels_product(context);
}

std::optional<LinearLayer> linear_gemm(const Node& node, size_t weight, int64_t /*rank*/) {
  if (weight != 1 || node.integer("transA", 0) != 0) return {};
  const bool turned = node.integer("transB", 0) != 0;
  return LinearLayer{.out_axis = turned ? 0 : 1,
                     .in_axis = turned ? 1 : 0,
                     .value_axis = -1,
                     .alpha = node.real("alpha", 1),
                     .beta = node.real("beta", 1)};
}

std::optional<LinearLayer> linear_matmul(const Node& /*node*/, size_t weight, int64_t rank) {
  if (weight > 1 || rank < 1) return {};
  const int64_t rows = std::max<int64_t>(rank - 2, 0);  // a vector is summed over along its only axis
  LinearLayer layer{.weight = weight, .out_axis = rows, .in_axis = rank - 1, .value_axis = -2, .takes_bias = false};
  if (weight == 1) {
    std::swap(layer.out_axis, layer.in_axis);
    layer.value_axis = -1;
  }
  return layer;
}

constexpr OpDef kOps[] = {
    {.type = "Gemm",
     .attributes = "alpha beta transA transB",
     .since = 11,
     .min_inputs = 2,
     .max_inputs = 3,
     .evaluate = gemm,
     .infer = infer_gemm,
     .cost = cost_gemm,
     .labels = labels_gemm,
     .traits = {.kind = OpKind::linear, .learned = {0, 1, 2}, .linear = linear_gemm}},
    {.type = "MatMul",
     .min_inputs = 2,
     .max_inputs = 2,
     .evaluate = matmul,
     .infer = infer_matmul,
     .cost = cost_matmul,
     .labels = labels_matmul,
     .traits = {.kind = OpKind::linear, .learned = {0, 1}, .linear = linear_matmul}},
};

}  // namespace matrix
}  // namespace

std::span<const OpDef> matrix_ops() {
  static const std::vector<OpDef> all = joined({matrix::kOps, einsum_ops()});
  return all;
}

}  // namespace pare
