// com.microsoft.Attention: self-attention with the projections of queries, keys and values inside, as ONNX Runtime's
// optimiser writes it for encoders. Inputs x [batch, length, width], weights [width, q + k + v], bias, padding of keys,
// past, bias of scores.
#include <ATen/ATen.h>

#include <cmath>

#include "pare/ops/attention.h"
#include "pare/ops/common.h"
#include "pare/ops/subfamilies.h"

namespace pare {

double stated_scale(const Node& node, int64_t size) {
  const double scale = node.real("scale", 0);
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(size, 1)));
}

void refuse_form(const Node& node, std::string_view what) {
  throw Error(ErrorKind::unsupported, describe(node), "{} is not computed", what);
}

at::Tensor padding_bias(const Node& node, const at::Tensor& mask, int64_t batch, int64_t keys,
                        const at::TensorOptions& options) {
  at::Tensor seen;
  if (mask.dim() == 2 && mask.size(0) == batch && mask.size(1) == keys)
    seen = mask.ne(0).reshape({batch, 1, 1, keys});
  else if (mask.dim() == 1 && mask.size(0) == batch)
    seen = at::arange(keys, at::kLong).reshape({1, 1, 1, -1}) < mask.to(at::kLong).reshape({-1, 1, 1, 1});
  else
    refuse_form(node, fmt::format("a padding mask of {}", to_string(mask.sizes())));
  return at::zeros(seen.sizes(), options).masked_fill(at::logical_not(seen), node.real("mask_filter_value", -10000.0));
}

namespace {
namespace packed_attention {

using at::Tensor;
using Tensors = std::vector<Tensor>;

struct Widths {
  int64_t heads = 1;
  int64_t q = 0, k = 0, v = 0;
};

Widths widths_of(const Node& node, std::span<const int64_t> x, std::span<const int64_t> weights) {
  if (x.size() != 3 || weights.size() != 2 || weights[0] != x[2])
    throw Error(ErrorKind::shape, describe(node), "weights of {} for {}", to_string(weights), to_string(x));
  Widths widths{.heads = node.integer("num_heads", 0)};
  const auto sizes = node.integers("qkv_hidden_sizes");
  if (sizes.empty())
    widths.q = widths.k = widths.v = weights[1] / 3;
  else if (sizes.size() == 3)
    widths.q = sizes[0], widths.k = sizes[1], widths.v = sizes[2];
  const bool fits = widths.heads > 0 && widths.q > 0 && widths.v > 0 && widths.q == widths.k &&
                    widths.q + widths.k + widths.v == weights[1] && widths.q % widths.heads == 0 &&
                    widths.v % widths.heads == 0;
  if (!fits)
    throw Error(ErrorKind::format, describe(node), "{} columns do not make {} heads", weights[1], widths.heads);
  return widths;
}

Tensors evaluate(const EvalContext& context) {
  const Node& node = context.node;
  if (context.has(4) || context.has(6)) refuse_form(node, "a cache");
  if (node.integer("do_rotary", 0) != 0) refuse_form(node, "a rotation inside");
  const Tensor& x = context.in(0);
  const Widths widths = widths_of(node, x.sizes(), context.in(1).sizes());
  Tensor all = at::matmul(x, context.in(1));
  if (context.has(2)) all = all + context.in(2);
  const auto part = [&](int64_t from, int64_t width) {
    return split_heads(all.narrow(2, from, width), widths.heads, node);
  };
  const Tensor q = part(0, widths.q), k = part(widths.q, widths.k), v = part(widths.q + widths.k, widths.v);
  Tensor bias = context.has(5) ? context.in(5) : Tensor();
  if (context.has(3)) {
    const Tensor padding = padding_bias(node, context.in(3), x.size(0), x.size(1), x.options());
    bias = bias.defined() ? bias + padding : padding;
  }
  const auto result =
      attend(q, k, v, bias, Tensor(),
             {.scale = stated_scale(node, q.size(3)), .causal = node.integer("unidirectional", 0) != 0});
  return {join_heads(result.output)};
}

std::vector<TensorType> infer(const InferContext& context) {
  const Shape& x = context.in(0).dims;
  const Widths widths = widths_of(context.node, x, context.in(1).dims);
  return {{context.in(0).dtype, {x[0], x[1], widths.v}}};
}

Cost cost(const CostContext& context) {
  const Shape& x = context.inputs[0].dims;
  const Widths widths = widths_of(context.node, x, context.inputs[1].dims);
  Cost all = cost_of_attention({x[0], widths.heads, x[1], widths.q / widths.heads}, x[1], widths.v / widths.heads);
  const int64_t projections = x[0] * x[1] * context.inputs[1].count();
  all.macs += projections;
  all.flops += 2 * projections;
  return all;
}

// Ids of columns: queries, keys and values of a head one set, or dimensions of the values of all heads. Those of
// queries and keys lie in no value: that they are gone could not be told from outside.
std::vector<int64_t> columns_of(LabelContext& context, const Widths& widths) {
  const int64_t size = widths.q / widths.heads, read = widths.v / widths.heads;
  const auto made = context.make(context.by_dimension() ? read : widths.heads);
  std::vector<int64_t> ids;
  for (const int64_t part : {0, 1, 2})
    for (int64_t h = 0; h < widths.heads; ++h)
      for (int64_t d = 0; d < (part == 2 ? read : size); ++d)
        ids.push_back(context.by_dimension() && part < 2 ? kUnlabelled
                                                         : made[static_cast<size_t>(context.by_dimension() ? d : h)]);
  return ids;
}

void labels(LabelContext& context) {
  const bool plain = context.is_parameter(1) && (!context.has(2) || context.is_parameter(2)) && !context.has(4);
  const bool by_head = context.has(5) && context.inputs[5].rank() == 4 && context.inputs[5].dims[1] > 1;
  if (!plain || by_head || context.for_exchange())
    return context.freeze_inputs(fmt::format("the heads of {} are not told apart", describe(context.node)));
  const Widths widths = widths_of(context.node, context.inputs[0].dims, context.inputs[1].dims);
  context.slot(1, 0, context.along(0, 2), SlotRole::consumer);
  const auto ids = columns_of(context, widths);
  context.slot(1, 1, ids, SlotRole::producer);
  if (context.has(2)) context.slot(2, 0, ids, SlotRole::producer);
  context.set(0, {ids.end() - widths.v, ids.end()}, 2);
}

void rewrite(RewriteContext& context) {
  const Node before = context.node;
  const Widths widths = widths_of(before, context.inputs[0].dims, context.inputs[1].dims);
  if (!context.output_keep[0].defined()) return;
  const Tensor& weights = context.graph.tensor(context.node.inputs[1]);
  const auto kept = context.kept_out(0, 2);
  std::vector<bool> head(static_cast<size_t>(widths.heads));
  for (const int64_t place : kept) head[static_cast<size_t>(place / (widths.v / widths.heads))] = true;
  const int64_t v = std::ssize(kept), q = (weights.size(1) - v) / 2;
  context.node.attributes["num_heads"] = static_cast<int64_t>(std::count(head.begin(), head.end(), true));
  context.node.attributes["qkv_hidden_sizes"] = std::vector<int64_t>{q, q, v};
  context.node.attributes["scale"] = stated_scale(before, widths.q / widths.heads);
}

constexpr OpDef kOps[] = {
    {.type = "com.microsoft.Attention",
     .attributes = "do_rotary mask_filter_value num_heads past_present_share_buffer qkv_hidden_sizes "
                   "rotary_embedding_dim scale unidirectional",
     .min_inputs = 2,
     .max_inputs = 7,
     .evaluate = evaluate,
     .infer = infer,
     .cost = cost,
     .labels = labels,
     .rewrite = rewrite,
     .traits = {.learned = {1, 2}}},
};

}  // namespace packed_attention
}  // namespace

std::span<const OpDef> packed_attention_ops() { return packed_attention::kOps; }

}  // namespace pare
