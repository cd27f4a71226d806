// Pure movement of data: Reshape, Flatten, Squeeze, Unsqueeze, Transpose, Expand, Tile, Concat, Split, depth and space.
// Slice and Pad are in slicing.cpp.
#include <ATen/ATen.h>

#include "pare/ops/common.h"
#include "pare/ops/families.h"
#include "pare/ops/slicing.h"

namespace pare {
namespace {
namespace movement {

using Tensors = std::vector<at::Tensor>;
using at::Tensor;

// The extents a Reshape asks for: 0 copies the input's (unless allowzero), −1 takes what is left.
Shape reshaped(const Node& node, const Shape& from, Shape to) {
  const bool allow_zero = node.integer("allowzero", 0) != 0;
  int64_t known = 1;
  int64_t open = -1;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 && !allow_zero) {
      if (i >= from.size()) throw Error(ErrorKind::shape, describe(node), "copies axis {} of {}", i, to_string(from));
      to[i] = from[i];
    }
    if (to[i] == -1 && open < 0) {
      open = static_cast<int64_t>(i);
    } else if (to[i] < 0 || (to[i] > 0 && known > INT64_MAX / to[i])) {
      throw Error(ErrorKind::shape, describe(node), "asks for the shape {}", to_string(to));
    } else {
      known *= to[i];
    }
  }
  const int64_t count = TensorType{.dims = from}.count();
  if (open >= 0) {
    if (known == 0 || count % known != 0)
      throw Error(ErrorKind::shape, describe(node), "cannot turn {} into {}", to_string(from), to_string(to));
    to[static_cast<size_t>(open)] = count / known;
  } else if (known != count) {
    throw Error(ErrorKind::shape, describe(node), "cannot turn {} into {}", to_string(from), to_string(to));
  }
  return to;
}

Tensors reshape(const EvalContext& context) {
  const Tensor& x = context.in(0);
  return {x.reshape(reshaped(context.node, x.sizes().vec(), context.integers(1)))};
}

std::vector<TensorType> infer_reshape(const InferContext& context) {
  const TensorType& x = context.in(0);
  return {{x.dtype, reshaped(context.node, x.dims, context.integers(1))}};
}

// Entries that count channels shrink with them; 0 and −1 follow by themselves.
void rewrite_target_shape(RewriteContext& context) {
  if (!context.output_keep[0].defined()) return;
  const Tensor old = context.graph.tensor(context.node.inputs[1]);
  Tensor shape = old.clone();
  const int64_t offset = context.outputs[0].rank() - shape.numel();  // Expand's shape may have fewer axes
  for (int64_t i = 0; i < shape.numel(); ++i) {
    const int64_t entry = shape[i].item<int64_t>();
    if (entry == context.outputs[0].dims[static_cast<size_t>(i + offset)] && entry > 1)
      shape[i] = static_cast<int64_t>(context.kept_out(0, i + offset).size());
  }
  if (!shape.equal(old)) context.replace(1, shape);
}

int64_t flatten_axis(const Node& node, int64_t rank) {
  const int64_t axis = node.integer("axis", 1);
  return axis == rank ? rank : normalized_axis(axis, rank, node);
}

Shape flattened(const Node& node, const Shape& dims) {
  Shape result = {1, 1};
  const auto axis = static_cast<size_t>(flatten_axis(node, static_cast<int64_t>(dims.size())));
  for (size_t i = 0; i < dims.size(); ++i) result[i < axis ? 0 : 1] *= dims[i];
  return result;
}

Tensors flatten(const EvalContext& context) {
  return {context.in(0).reshape(flattened(context.node, context.in(0).sizes().vec()))};
}

std::vector<TensorType> infer_flatten(const InferContext& context) {
  return {{context.in(0).dtype, flattened(context.node, context.in(0).dims)}};
}

Shape squeezed(const Node& node, const Shape& dims, const std::vector<int64_t>* axes) {
  std::vector<bool> drop(dims.size(), false);
  if (axes == nullptr)
    for (size_t i = 0; i < dims.size(); ++i) drop[i] = dims[i] == 1;
  else
    for (const int64_t axis : normalized_axes(*axes, static_cast<int64_t>(dims.size()), node)) {
      if (dims.empty() || dims[static_cast<size_t>(axis)] != 1)
        throw Error(ErrorKind::shape, describe(node), "axis {} of {} is not of extent 1", axis, to_string(dims));
      drop[static_cast<size_t>(axis)] = true;
    }
  Shape result;
  for (size_t i = 0; i < dims.size(); ++i)
    if (!drop[i]) result.push_back(dims[i]);
  return result;
}

Tensors squeeze(const EvalContext& context) {
  const auto axes = context.has(1) ? context.integers(1) : std::vector<int64_t>{};
  return {context.in(0).reshape(squeezed(context.node, context.in(0).sizes().vec(), context.has(1) ? &axes : nullptr))};
}

std::vector<TensorType> infer_squeeze(const InferContext& context) {
  const auto axes = context.has(1) ? context.integers(1) : std::vector<int64_t>{};
  return {{context.in(0).dtype, squeezed(context.node, context.in(0).dims, context.has(1) ? &axes : nullptr)}};
}

Shape unsqueezed(const Node& node, const Shape& dims, const std::vector<int64_t>& axes) {
  const auto rank = static_cast<int64_t>(dims.size() + axes.size());
  Shape result(static_cast<size_t>(rank), -1);
  for (const int64_t axis : normalized_axes(axes, rank, node)) {
    if (result[static_cast<size_t>(axis)] == 1)
      throw Error(ErrorKind::format, describe(node), "axis {} is named twice", axis);
    result[static_cast<size_t>(axis)] = 1;
  }
  auto next = dims.begin();
  for (auto& dim : result)
    if (dim < 0) dim = *next++;
  return result;
}

Tensors unsqueeze(const EvalContext& context) {
  return {context.in(0).reshape(unsqueezed(context.node, context.in(0).sizes().vec(), context.integers(1)))};
}

std::vector<TensorType> infer_unsqueeze(const InferContext& context) {
  return {{context.in(0).dtype, unsqueezed(context.node, context.in(0).dims, context.integers(1))}};
}

std::vector<int64_t> permutation(const Node& node, int64_t rank) {
  std::vector<int64_t> reversed;
  for (int64_t i = rank; i-- > 0;) reversed.push_back(i);
  auto perm = normalized_axes(node.integers("perm", reversed), rank, node);
  if (static_cast<int64_t>(perm.size()) != rank)
    throw Error(ErrorKind::shape, describe(node), "perm {} does not fit {} axes", to_string(perm), rank);
  return perm;
}

Tensors transpose(const EvalContext& context) {
  return {context.in(0).permute(permutation(context.node, context.in(0).dim()))};
}

std::vector<TensorType> infer_transpose(const InferContext& context) {
  TensorType y{context.in(0).dtype, {}};
  for (const int64_t axis : permutation(context.node, context.in(0).rank()))
    y.dims.push_back(context.in(0).dims[static_cast<size_t>(axis)]);
  return {y};
}

Tensors expand(const EvalContext& context) {
  const Tensor& x = context.in(0);
  return {x.expand(broadcast_dims(x.sizes().vec(), context.integers(1), context.node))};
}

// A learned token that is given to every sample ([1, 1, width], a class token) makes channels along its last axis.
void labels_expand(LabelContext& context) {
  const Shape& dims = context.inputs[0].dims;
  const bool token = context.is_parameter(0) && at::isFloatingType(context.inputs[0].dtype) && dims.size() > 1 &&
                     dims.back() > 1 && dims.back() == context.inputs[0].count();
  if (!token) return labels_moved<expand>(context);
  const auto ids = context.make(dims.back());
  context.slot(0, static_cast<int64_t>(dims.size()) - 1, ids, SlotRole::producer);
  context.set(0, ids, context.outputs[0].rank() - 1);
}

std::vector<TensorType> infer_expand(const InferContext& context) {
  return {{context.in(0).dtype, broadcast_dims(context.in(0).dims, context.integers(1), context.node)}};
}

std::vector<int64_t> repeats(const Node& node, std::vector<int64_t> list, int64_t rank) {
  if (static_cast<int64_t>(list.size()) != rank)
    throw Error(ErrorKind::shape, describe(node), "{} repeats for {} axes", list.size(), rank);
  for (const int64_t n : list)
    if (n < 0) throw Error(ErrorKind::shape, describe(node), "repeats {} times", n);
  return list;
}

Tensors tile(const EvalContext& context) {
  return {context.in(0).repeat(repeats(context.node, context.integers(1), context.in(0).dim()))};
}

std::vector<TensorType> infer_tile(const InferContext& context) {
  TensorType y = context.in(0);
  const auto list = repeats(context.node, context.integers(1), y.rank());
  for (size_t i = 0; i < list.size(); ++i)
    if (__builtin_mul_overflow(y.dims[i], list[i], &y.dims[i]))
      throw Error(ErrorKind::memory, describe(context.node), "repeats {} times, more than any memory", list[i]);
  return {y};
}

Tensors concat(const EvalContext& context) {
  const int64_t axis = normalized_axis(context.node.integer("axis", 0), context.in(0).dim(), context.node);
  std::vector<Tensor> parts(context.inputs.begin(), context.inputs.end());
  return {at::cat(parts, axis)};
}

std::vector<TensorType> infer_concat(const InferContext& context) {
  TensorType y = context.in(0);
  const auto axis = static_cast<size_t>(normalized_axis(context.node.integer("axis", 0), y.rank(), context.node));
  for (size_t i = 1; i < context.types.size(); ++i) {
    const TensorType& part = context.in(i);
    for (size_t a = 0; a < y.dims.size(); ++a)
      if (part.rank() != y.rank() || (a != axis && part.dims[a] != y.dims[a]))
        throw Error(ErrorKind::shape, describe(context.node), "{} does not join {} along axis {}", to_string(part),
                    to_string(y), axis);
    y.dims[axis] += part.dims[axis];
  }
  return {y};
}

// The ids of a part; what lies in a head and is joined there goes with the head.
Tensor inside_heads(LabelContext& context, size_t part, int64_t axis, const std::string& reason) {
  const Tensor& ids = context.ids(part);
  if (!ids.defined() || ids.size(axis) == 1 || ids.size(axis) == ids.numel() || context.for_exchange()) return ids;
  const Tensor first = ids.narrow(axis, 0, 1);
  context.unite(first.expand(ids.sizes()), ids, reason);
  return first;
}

// Channels along the joined axis stand side by side; channels along another axis are the same in every part.
void labels_concat(LabelContext& context) {
  const int64_t axis = normalized_axis(context.node.integer("axis", 0), context.outputs[0].rank(), context.node);
  bool across = false;  // do ids vary along another axis?
  bool beside = false;  // and along this one?
  bool any = false;
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    if (context.is_parameter(i) || !context.ids(i).defined()) continue;
    any = true;
    beside = beside || context.ids(i).size(axis) > 1;
    for (int64_t a = 0; a < context.ids(i).dim(); ++a) across = across || (a != axis && context.ids(i).size(a) > 1);
  }
  if (!any) return;
  if (!across || (beside && context.by_dimension())) {
    std::vector<Tensor> parts;
    for (size_t i = 0; i < context.inputs.size(); ++i) {
      Shape dims(context.inputs[i].dims.size(), 1);
      dims[static_cast<size_t>(axis)] = context.inputs[i].dims[static_cast<size_t>(axis)];
      parts.push_back(at::tensor(context.along(i, axis), at::kLong).reshape(dims));
    }
    return context.set(0, at::cat(parts, axis));
  }
  const std::string reason = fmt::format("{} joins it with what has no channels", describe(context.node));
  Tensor common;
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    if (context.is_parameter(i)) continue;
    const Tensor ids = inside_heads(context, i, axis, reason);
    if (!ids.defined() || ids.size(axis) > 1) return context.freeze_inputs(reason);
    if (common.defined())
      context.unite(common, ids, reason);
    else
      common = ids;
  }
  for (size_t i = 0; i < context.inputs.size(); ++i)
    for (int64_t a = 0; context.is_parameter(i) && a < common.dim(); ++a)
      if (common.size(a) > 1) context.slot(i, a, context.along(common, common.sizes(), a), SlotRole::pass);
  context.set(0, common);
}

std::vector<int64_t> split_sizes(const Node& node, int64_t extent, const std::vector<int64_t>* stated) {
  if (stated != nullptr) {
    int64_t sum = 0;
    for (const int64_t part : *stated) sum += part < 0 || part > extent ? extent + 1 : part;
    if (sum != extent || stated->size() != node.outputs.size())
      throw Error(ErrorKind::shape, describe(node), "splits {} into {} outputs of {}", extent, node.outputs.size(),
                  to_string(*stated));
    return *stated;
  }
  const auto parts = static_cast<int64_t>(node.outputs.size());
  const int64_t part = (extent + parts - 1) / parts;  // the last one may be smaller
  std::vector<int64_t> sizes(static_cast<size_t>(parts), part);
  sizes.back() = extent - part * (parts - 1);
  if (sizes.back() < 0) throw Error(ErrorKind::shape, describe(node), "splits {} into {} parts", extent, parts);
  return sizes;
}

Tensors split(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const int64_t axis = normalized_axis(context.node.integer("axis", 0), x.dim(), context.node);
  const auto stated = context.has(1) ? context.integers(1) : std::vector<int64_t>{};
  return at::split_with_sizes(x, split_sizes(context.node, x.size(axis), context.has(1) ? &stated : nullptr), axis);
}

std::vector<TensorType> infer_split(const InferContext& context) {
  const TensorType& x = context.in(0);
  const auto axis = static_cast<size_t>(normalized_axis(context.node.integer("axis", 0), x.rank(), context.node));
  const auto stated = context.has(1) ? context.integers(1) : std::vector<int64_t>{};
  std::vector<TensorType> result;
  for (const int64_t part : split_sizes(context.node, x.dims[axis], context.has(1) ? &stated : nullptr)) {
    result.push_back(x);
    result.back().dims[axis] = part;
  }
  return result;
}

void rewrite_split(RewriteContext& context) {
  const int64_t axis = normalized_axis(context.node.integer("axis", 0), context.inputs[0].rank(), context.node);
  if (!context.input_keep[0].defined() || context.input_keep[0].size(axis) == 1) return;
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < context.outputs.size(); ++i)
    sizes.push_back(static_cast<int64_t>(context.kept_out(i, axis).size()));
  context.node.attributes.erase("num_outputs");
  context.replace(1, at::tensor(sizes, at::kLong));
}

int64_t block_of(const Node& node, at::IntArrayRef dims, bool to_space) {
  const int64_t b = node.integer("blocksize", 0);
  const bool fits = dims.size() == 4 && b > 0 && b < (1 << 15) &&
                    (to_space ? dims[1] % (b * b) == 0 : dims[2] % b == 0 && dims[3] % b == 0);
  if (!fits) throw Error(ErrorKind::shape, describe(node), "blocks of {} do not fit {}", b, to_string(dims));
  return b;
}

Tensors depth_to_space(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const int64_t b = block_of(context.node, x.sizes(), true);
  const int64_t n = x.size(0), c = x.size(1) / (b * b), h = x.size(2), w = x.size(3);
  const bool crd = context.node.text("mode", "DCR") == "CRD";
  const Tensor y = crd ? x.reshape({n, c, b, b, h, w}).permute({0, 1, 4, 2, 5, 3})
                       : x.reshape({n, b, b, c, h, w}).permute({0, 3, 4, 1, 5, 2});
  return {y.reshape({n, c, h * b, w * b})};
}

std::vector<TensorType> infer_depth_to_space(const InferContext& context) {
  const TensorType& x = context.in(0);
  const int64_t b = block_of(context.node, x.dims, true);
  return {{x.dtype, {x.dims[0], x.dims[1] / (b * b), x.dims[2] * b, x.dims[3] * b}}};
}

Tensors space_to_depth(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const int64_t b = block_of(context.node, x.sizes(), false);
  const int64_t n = x.size(0), c = x.size(1), h = x.size(2) / b, w = x.size(3) / b;
  return {x.reshape({n, c, h, b, w, b}).permute({0, 3, 5, 1, 2, 4}).reshape({n, b * b * c, h, w})};
}

std::vector<TensorType> infer_space_to_depth(const InferContext& context) {
  const TensorType& x = context.in(0);
  const int64_t b = block_of(context.node, x.dims, false);
  return {{x.dtype, {x.dims[0], x.dims[1] * b * b, x.dims[2] / b, x.dims[3] / b}}};
}

constexpr OpDef move(std::string_view type, size_t max_inputs, EvaluateFunction evaluate, InferFunction infer,
                     LabelFunction labels, int since = 1, RewriteFunction rewrite = nullptr) {
  return {.type = type,
          .since = since,
          .min_inputs = 1,
          .max_inputs = max_inputs,
          .evaluate = evaluate,
          .infer = infer,
          .cost = cost_none,
          .labels = labels,
          .rewrite = rewrite};
}

constexpr OpDef kOps[] = {
    move("Reshape", 2, reshape, infer_reshape, labels_moved<reshape>, 5, rewrite_target_shape)
        .taking("allowzero")
        .being({.kind = OpKind::reshape, .target_shape = 1}),
    move("Flatten", 1, flatten, infer_flatten, labels_moved<flatten>).taking("axis").being({.kind = OpKind::reshape}),
    move("Squeeze", 2, squeeze, infer_squeeze, labels_moved<squeeze>).being({.kind = OpKind::reshape}),
    move("Unsqueeze", 2, unsqueeze, infer_unsqueeze, labels_moved<unsqueeze>).being({.kind = OpKind::reshape}),
    move("Transpose", 1, transpose, infer_transpose, labels_moved<transpose>)
        .taking("perm")
        .being({.kind = OpKind::permutation}),
    move("Expand", 2, expand, infer_expand, labels_expand, 8, rewrite_target_shape)
        .being({.kind = OpKind::repetition, .target_shape = 1}),
    move("Tile", 2, tile, infer_tile, labels_moved<tile>, 6).being({.kind = OpKind::repetition}),
    move("Concat", SIZE_MAX, concat, infer_concat, labels_concat, 4).taking("axis").being({.kind = OpKind::join}),
    move("Split", 2, split, infer_split, labels_moved<split>, 2, rewrite_split)
        .taking("axis num_outputs")
        .being({.kind = OpKind::selection}),
    move("DepthToSpace", 1, depth_to_space, infer_depth_to_space, labels_moved<depth_to_space>)
        .taking("blocksize mode")
        .being({.kind = OpKind::permutation}),
    move("SpaceToDepth", 1, space_to_depth, infer_space_to_depth, labels_moved<space_to_depth>)
        .taking("blocksize")
        .being({.kind = OpKind::permutation}),
    kSlice,
    kPad,
};

}  // namespace movement
}  // namespace

std::span<const OpDef> movement_ops() { return movement::kOps; }

}  // namespace pare
