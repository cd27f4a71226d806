// Writing by index: ScatterElements, ScatterND, with the reductions none, add, mul, max and min; TensorScatter.
#include <ATen/ATen.h>

#include "pare/ops/common.h"
#include "pare/ops/dtype.h"
#include "pare/ops/indices.h"
#include "pare/ops/subfamilies.h"

namespace pare {
namespace {
namespace scatter {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// ATen's name of the node's reduction; empty for none.
std::string reduction_of(const Node& node) {
  const std::string name = node.text("reduction", "none");
  if (name == "none") return "";
  if (name == "add") return "sum";
  if (name == "mul") return "prod";
  if (name == "max") return "amax";
  if (name == "min") return "amin";
  throw Error(ErrorKind::format, describe(node), "reduction is '{}'", name);
}

Tensor scatter_along(const Node& node, const Tensor& data, int64_t axis, const Tensor& indices, const Tensor& updates) {
  const std::string reduction = reduction_of(node);
  if (indices.numel() == 0) return data;
  if (reduction.empty()) return at::scatter(data, axis, indices, updates);
  const Tensor result = reduction == "sum"
                            ? at::scatter_add(widened(data), axis, indices, widened(updates))
                            : at::scatter_reduce(widened(data), axis, indices, widened(updates), reduction);
  return narrowed(result, data.scalar_type());
}

Tensors scatter_elements(const EvalContext& context) {
  const Tensor& data = context.in(0);
  const Tensor& updates = context.in(2);
  if (data.dim() == 0) throw Error(ErrorKind::shape, describe(context.node), "writes into a single number");
  const int64_t axis = normalized_axis(context.node.integer("axis", 0), data.dim(), context.node);
  const Tensor indices = checked_indices(context.in(1), data.size(axis), context.node);
  bool fits = indices.dim() == data.dim() && indices.sizes() == updates.sizes();
  for (int64_t i = 0; fits && i < data.dim(); ++i) fits = i == axis || indices.size(i) <= data.size(i);
  if (!fits)
    throw Error(ErrorKind::shape, describe(context.node), "indices {} and updates {} do not fit data {}",
                to_string(indices.sizes()), to_string(updates.sizes()), to_string(data.sizes()));
  return {scatter_along(context.node, data, axis, indices, updates)};
}

// Each tuple of indices names a block of the data; the blocks are rows of a matrix here.
Tensors scatter_nd(const EvalContext& context) {
  const Tensor& data = context.in(0);
  const Tensor& tuples = context.in(1);
  const Tensor& updates = context.in(2);
  const int64_t m = tuples.dim() > 0 ? tuples.size(-1) : -1;
  bool fits = data.dim() > 0 && m >= 0 && m <= data.dim();
  if (fits) {
    Shape expected(tuples.sizes().begin(), tuples.sizes().end() - 1);
    expected.insert(expected.end(), data.sizes().begin() + m, data.sizes().end());
    fits = updates.sizes().vec() == expected;
  }
  if (!fits)
    throw Error(ErrorKind::shape, describe(context.node), "indices {} and updates {} do not fit data {}",
                to_string(tuples.sizes()), to_string(updates.sizes()), to_string(data.sizes()));
  const Tensor position = flat_positions(tuples, data.sizes(), 0, context.node).flatten();
  if (updates.numel() == 0) return {data};
  int64_t places = 1;
  for (int64_t i = 0; i < m; ++i) places *= data.size(i);
  const Tensor rows = data.reshape({places, -1});
  const Tensor blocks = updates.reshape({position.numel(), -1});
  if (reduction_of(context.node).empty()) return {at::index_copy(rows, 0, position, blocks).reshape(data.sizes())};
  const Tensor indices = position.unsqueeze(1).expand(blocks.sizes());
  return {scatter_along(context.node, rows, 0, indices, blocks).reshape(data.sizes())};
}

// Tokens written into a cache, each sample's from its own place on.
Tensors tensor_scatter(const EvalContext& context) {
  const Node& node = context.node;
  const Tensor& cache = context.in(0);
  const Tensor& update = context.in(1);
  const int64_t axis = normalized_axis(node.integer("axis", -2), cache.dim(), node);
  bool fits = axis > 0 && update.dim() == cache.dim();
  for (int64_t i = 0; fits && i < cache.dim(); ++i)
    fits = i == axis ? update.size(i) <= cache.size(i) : update.size(i) == cache.size(i);
  const Tensor starts =
      context.has(2) ? context.in(2).to(at::kLong).flatten() : at::zeros({fits ? cache.size(0) : 0}, at::kLong);
  if (!fits || starts.numel() != cache.size(0))
    throw Error(ErrorKind::shape, describe(node), "writes {} into {}", to_string(update.sizes()),
                to_string(cache.sizes()));
  const std::string mode = node.text("mode", "linear");
  if (mode != "linear" && mode != "circular") throw Error(ErrorKind::format, describe(node), "mode is '{}'", mode);
  if (update.numel() == 0) return {cache};
  Tensors samples;
  for (int64_t b = 0; b < cache.size(0); ++b) {
    Tensor places = at::arange(update.size(axis), at::kLong) + starts[b];
    if (mode == "circular") places = at::remainder(places, cache.size(axis));
    samples.push_back(at::index_copy(cache[b], axis - 1, checked_indices(places, cache.size(axis), node), update[b]));
  }
  return {at::stack(samples)};
}

Cost cost(const CostContext& context) {
  if (context.inputs.size() < 3) return {};
  return {.flops = context.node.text("reduction", "none") == "none" ? 0 : context.inputs[2].count()};
}

constexpr OpDef op(std::string_view type, EvaluateFunction evaluate) {
  return {.type = type,
          .since = 16,
          .min_inputs = 3,
          .max_inputs = 3,
          .evaluate = evaluate,
          .infer = infer_same,
          .cost = cost,
          .labels = labels_frozen};
}

constexpr OpDef kOps[] = {op("ScatterElements", scatter_elements).taking("axis reduction"),
                          op("ScatterND", scatter_nd).taking("reduction"),
                          {.type = "TensorScatter",
                           .attributes = "axis mode",
                           .since = 24,
                           .min_inputs = 2,
                           .max_inputs = 3,
                           .evaluate = tensor_scatter,
                           .infer = infer_same,
                           .cost = cost_none,
                           .labels = labels_frozen}};

}  // namespace scatter
}  // namespace

std::span<const OpDef> scatter_ops() { return scatter::kOps; }

}  // namespace pare
