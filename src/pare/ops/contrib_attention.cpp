// com.microsoft's attention: MultiHeadAttention, GroupQueryAttention and RotaryEmbedding, as ONNX Runtime writes them.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "pare/ops/attention.h"
#include "pare/ops/common.h"
#include "pare/ops/subfamilies.h"

namespace pare {
namespace {
namespace contrib_attention {

using at::Tensor;
using Tensors = std::vector<Tensor>;

[[noreturn]] void refuse(const Node& node, std::string_view what) { refuse_form(node, what); }

// --- MultiHeadAttention: query, key, value, bias, padding of keys, bias of scores, past keys, past values

// A projection with its part of the bias, which lists those of queries, keys and values one after the other.
Tensor projected(const EvalContext& context, size_t input, int64_t from) {
  const Tensor& x = context.in(input);
  if (!context.has(3)) return x;
  const Tensor& bias = context.in(3);
  if (x.dim() != 3 || bias.dim() != 1 || from < 0 || from + x.size(2) > bias.size(0))
    throw Error(ErrorKind::shape, describe(context.node), "a bias of {} for {}", to_string(bias.sizes()),
                to_string(x.sizes()));
  return x + bias.narrow(0, from, x.size(2));
}

Tensor in_heads(const Node& node, const Tensor& x, int64_t heads) {
  return x.dim() == 4 ? x : split_heads(x, heads, node);
}

Tensors multi_head(const EvalContext& context) {
  const Node& node = context.node;
  const int64_t heads = node.integer("num_heads", 0);
  if (!context.has(1) || !context.has(2)) refuse(node, "a packed projection of queries, keys and values");
  if (context.inputs.size() > 8 && context.has(8)) refuse(node, "a shared buffer of past keys");
  const int64_t q_size = context.in(0).dim() == 3 ? context.in(0).size(2) : 0;
  const int64_t k_size = context.in(1).dim() == 3 ? context.in(1).size(2) : 0;
  const Tensor q = in_heads(node, projected(context, 0, 0), heads);
  Tensor k = in_heads(node, projected(context, 1, q_size), heads);
  Tensor v = in_heads(node, projected(context, 2, q_size + k_size), heads);
  Tensor offset;
  if (context.has(6) && context.has(7)) {
    if (context.in(6).dim() != 4) throw Error(ErrorKind::shape, describe(node), "its past keys have no heads");
    offset = at::scalar_tensor(context.in(6).size(2), at::kLong);
    k = at::cat({context.in(6), k}, 2);
    v = at::cat({context.in(7), v}, 2);
  }
  check_heads(q.sizes(), k.sizes(), v.sizes(), node);
  Tensor bias = context.has(5) ? context.in(5) : Tensor();
  if (context.has(4)) {
    const Tensor padding = padding_bias(node, context.in(4), q.size(0), k.size(2), q.options());
    bias = bias.defined() ? bias + padding : padding;
  }
  const auto result =
      attend(q, k, v, bias, offset,
             {.scale = stated_scale(node, q.size(3)), .causal = node.integer("unidirectional", 0) != 0});
  return {join_heads(result.output), k, v};
}

Shape dims_in_heads(const Node& node, const Shape& dims, int64_t heads) {
  if (dims.size() == 4) return dims;
  if (dims.size() != 3 || heads < 1 || dims[2] % heads != 0)
    throw Error(ErrorKind::shape, describe(node), "{} does not hold {} heads", to_string(dims), heads);
  return {dims[0], heads, dims[1], dims[2] / heads};
}

std::vector<TensorType> infer_multi_head(const InferContext& context) {
  const Node& node = context.node;
  const int64_t heads = node.integer("num_heads", 0);
  if (!context.has(1) || !context.has(2)) refuse(node, "a packed projection of queries, keys and values");
  const Shape q = dims_in_heads(node, context.in(0).dims, heads);
  Shape k = dims_in_heads(node, context.in(1).dims, heads);
  Shape v = dims_in_heads(node, context.in(2).dims, heads);
  if (context.has(6) && context.in(6).rank() == 4) k[2] += context.in(6).dims[2], v[2] += context.in(6).dims[2];
  check_heads(q, k, v, node);
  const auto dtype = context.in(0).dtype;
  return {{dtype, {q[0], q[2], q[1] * v[3]}}, {dtype, k}, {dtype, v}};
}

Cost cost_multi_head(const CostContext& context) {
  const int64_t heads = context.node.integer("num_heads", 0);
  const Shape q = dims_in_heads(context.node, context.inputs[0].dims, heads);
  const Shape k = dims_in_heads(context.node, context.inputs[1].dims, heads);
  const Shape v = dims_in_heads(context.node, context.inputs[2].dims, heads);
  return cost_of_attention(q, k[2], v[3]);
}

bool has_cache(const LabelContext& context, size_t first_past) {
  bool cached = context.has(first_past);
  for (size_t i = 1; i < context.node.outputs.size(); ++i) cached = cached || !context.node.outputs[i].empty();
  return cached;
}

void labels_multi_head(LabelContext& context) {
  const Node& node = context.node;
  const bool packed = !context.has(1) || !context.has(2) || context.inputs[0].rank() != 3 ||
                      context.inputs[1].rank() != 3 || context.inputs[2].rank() != 3;
  const bool biased = context.has(3);
  if (packed || (biased && !context.is_parameter(3)) || has_cache(context, 6))
    return context.freeze_inputs(fmt::format("{} has its projections packed or cached", describe(node)));
  const bool by_head = context.has(5) && context.inputs[5].rank() == 4 && context.inputs[5].dims[1] > 1;
  if (by_head || context.for_exchange())
    return context.freeze_inputs(fmt::format("the heads of {} are not told apart", describe(node)));
  const int64_t heads = node.integer("num_heads", 1);
  label_heads(context, heads, heads);
  if (!biased) return;
  std::vector<int64_t> all;
  for (const size_t i : {0, 1, 2}) {
    const auto ids = context.ids(i).defined() ? context.along(i, 2) : std::vector<int64_t>{};
    if (ids.empty()) return context.freeze_inputs(fmt::format("{} adds a bias to it", describe(node)));
    all.insert(all.end(), ids.begin(), ids.end());
  }
  context.slot(3, 0, all, SlotRole::producer);
}

void rewrite_multi_head(RewriteContext& context) {
  rewrite_scale(context, "num_heads");
  rewrite_heads(context, 0, "num_heads");
}

// --- GroupQueryAttention: query, key, value, past keys, past values, last places, longest length, cosines, sines

struct Groups {
  Tensor q, k, v;
};

// Queries, keys and values with their heads; without keys all three lie beside each other in the first input.
Groups groups_of(const EvalContext& context, int64_t heads, int64_t kv_heads) {
  const Node& node = context.node;
  const Tensor& x = context.in(0);
  if (context.has(1) && context.has(2))
    return {split_heads(x, heads, node), split_heads(context.in(1), kv_heads, node),
            split_heads(context.in(2), kv_heads, node)};
  const Tensor all = split_heads(x, heads + 2 * kv_heads, node);
  return {all.narrow(1, 0, heads), all.narrow(1, heads, kv_heads), all.narrow(1, heads + kv_heads, kv_heads)};
}

struct GroupHeads {
  int64_t q = 0, kv = 0;
};

GroupHeads group_heads(const Node& node) {
  const GroupHeads heads{node.integer("num_heads", 0), node.integer("kv_num_heads", 0)};
  if (heads.q < 1 || heads.kv < 1 || heads.q % heads.kv != 0 || heads.q > (1 << 20))
    throw Error(ErrorKind::format, describe(node), "has {} heads of queries and {} of keys", heads.q, heads.kv);
  return heads;
}

// Keys or values of every sample: what was there before its new tokens, and these from its own length on.
Tensor appended(const Tensor& past, const Tensor& fresh, const std::vector<int64_t>& before, int64_t length) {
  Tensor all = at::zeros({fresh.size(0), fresh.size(1), length, fresh.size(3)}, fresh.options());
  for (int64_t b = 0; b < fresh.size(0); ++b) {
    const int64_t kept = before[static_cast<size_t>(b)];
    const int64_t added = std::min(fresh.size(2), length - kept);
    if (kept > 0) all[b].narrow(1, 0, kept).copy_(past[b].narrow(1, 0, kept));
    if (added > 0) all[b].narrow(1, kept, added).copy_(fresh[b].narrow(1, 0, added));
  }
  return all;
}

// The number of tokens that each sample had before these.
std::vector<int64_t> tokens_before(const EvalContext& context, int64_t batch, int64_t length, int64_t past) {
  const Tensor last = context.in(5).to(at::kLong).flatten();
  if (last.numel() != batch)
    throw Error(ErrorKind::shape, describe(context.node), "{} lengths for {} samples", last.numel(), batch);
  const bool first = context.has(6) && context.in(6).numel() == 1 && context.in(6).item<int64_t>() == length;
  std::vector<int64_t> before;
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t here = first ? 0 : last[b].item<int64_t>() + 1 - length;
    if (here < 0 || here > past)
      throw Error(ErrorKind::format, describe(context.node), "says {} tokens went before, and {} are cached", here,
                  past);
    before.push_back(here);
  }
  return before;
}

Tensors group_query(const EvalContext& context) {
  const Node& node = context.node;
  const auto heads = group_heads(node);
  if (node.integer("smooth_softmax", 0) > 0 || context.has(11)) refuse(node, "a softmax with a sink");
  if (node.text("k_quant_type", "NONE") != "NONE") refuse(node, "a quantized cache");
  auto [q, k, v] = groups_of(context, heads.q, heads.kv);
  const int64_t length = q.size(2);
  const bool cached = context.has(3) && context.has(4);
  if (cached && (context.in(3).dim() != 4 || context.in(4).dim() != 4 || context.in(3).size(0) != q.size(0)))
    throw Error(ErrorKind::shape, describe(node), "its past keys have no heads");
  const int64_t past = cached ? context.in(3).size(2) : 0;
  const auto before = tokens_before(context, q.size(0), length, past);
  const Tensor offset = at::tensor(before, at::kLong);
  if (node.integer("do_rotary", 0) != 0) {
    const Tensor places = context.has(9) ? context.in(9) : offset.reshape({-1, 1}) + at::arange(length, at::kLong);
    const Tensor cos = rows_at(node, context.in(7), places), sin = rows_at(node, context.in(8), places);
    const RotaryForm form{.interleaved = node.integer("rotary_interleaved", 0) != 0, .rotated = 2 * cos.size(2)};
    q = rotate(q, cos, sin, form, node);
    k = rotate(k, cos, sin, form, node);
  }
  int64_t total = past;
  for (const int64_t tokens : before) total = std::max(total, tokens + length);
  k = appended(cached ? context.in(3) : Tensor(), k, before, total);
  v = appended(cached ? context.in(4) : Tensor(), v, before, total);
  check_heads(q.sizes(), k.sizes(), v.sizes(), node);
  const int64_t window = node.integer("local_window_size", -1);
  const auto result = attend(q, k, v, context.has(10) ? context.in(10) : Tensor(), offset,
                             {.scale = stated_scale(node, q.size(3)),
                              .softcap = node.real("softcap", 0),
                              .causal = true,
                              .left = window > 0 ? window - 1 : -1});
  return {join_heads(result.output), k, v};
}

// How long keys and values are is in the data.
std::vector<TensorType> infer_group_query(const InferContext& context) {
  const auto heads = group_heads(context.node);
  const TensorType& x = context.in(0);
  const bool packed = !context.has(1) || !context.has(2);
  const Shape q = dims_in_heads(context.node, x.dims, packed ? heads.q + 2 * heads.kv : heads.q);
  if (context.node.outputs.size() > 1) {
    bool wanted = false;
    for (size_t i = 1; i < context.node.outputs.size(); ++i) wanted = wanted || !context.node.outputs[i].empty();
    if (wanted && context.has(3)) throw UnknownValue{};
  }
  const TensorType cache{x.dtype, {q[0], heads.kv, q[2], q[3]}};
  return {{x.dtype, {q[0], q[2], heads.q * q[3]}}, cache, cache};
}

Cost cost_group_query(const CostContext& context) {
  const auto heads = group_heads(context.node);
  const Shape& y = context.outputs[0].dims;
  const int64_t size = y[2] / heads.q;
  const bool past = context.inputs.size() > 3 && context.inputs[3].rank() == 4;
  return cost_of_attention({y[0], heads.q, y[1], size}, y[1] + (past ? context.inputs[3].dims[2] : 0), size);
}

void labels_group_query(LabelContext& context) {
  const bool apart = context.has(1) && context.has(2) && !has_cache(context, 3) && !context.has(10);
  if (!apart || context.for_exchange())
    return context.freeze_inputs(fmt::format("the heads of {} are packed or cached", describe(context.node)));
  if (context.by_dimension() && context.node.integer("do_rotary", 0) != 0)
    return context.freeze_inputs(fmt::format("{} turns its channels in pairs", describe(context.node)));
  const auto heads = group_heads(context.node);
  label_heads(context, heads.q, heads.kv);
}

void rewrite_group_query(RewriteContext& context) {
  rewrite_scale(context, "num_heads");
  rewrite_heads(context, 0, "num_heads");
  rewrite_heads(context, 1, "kv_num_heads");
}

// --- RotaryEmbedding: x, positions, cosines, sines

Tensors rotary(const EvalContext& context) {
  const Node& node = context.node;
  const Tensor& x = context.in(0);
  const Tensor& table = context.in(2);
  if (x.dim() != 3 && x.dim() != 4)
    throw Error(ErrorKind::shape, describe(node), "{} has no heads", to_string(x.sizes()));
  if (node.integer("is_packed_batching", 0) != 0) refuse(node, "a packed batch");
  const int64_t rotated = node.integer("rotary_embedding_dim", 0);
  int64_t heads = node.integer("num_heads", 0);
  if (heads == 0 && x.dim() == 3 && table.dim() == 2 && table.size(1) > 0) heads = x.size(2) / (2 * table.size(1));
  const Tensor apart = x.dim() == 4 ? x : split_heads(x, heads, node);
  Tensor places = context.in(1).to(at::kLong);
  if (places.numel() == 1) places = places.reshape({1, 1}) + at::arange(apart.size(2), at::kLong);
  const Tensor y = rotate(apart, rows_at(node, table, places), rows_at(node, context.in(3), places),
                          {.interleaved = node.integer("interleaved", 0) != 0, .rotated = rotated}, node);
  const Tensor scaled = y * node.real("scale", 1);
  return {x.dim() == 3 ? join_heads(scaled) : scaled};
}

Cost cost_rotary(const CostContext& context) { return {.flops = 3 * context.outputs[0].count()}; }

void labels_rotary(LabelContext& context) {
  const Shape& x = context.inputs[0].dims;
  const Shape& table = context.inputs[2].dims;
  int64_t heads = x.size() == 4 ? x[1] : context.node.integer("num_heads", 0);
  if (heads == 0 && x.size() == 3 && table.size() == 2 && table[1] > 0) heads = x[2] / (2 * table[1]);
  const RotaryForm form{.interleaved = context.node.integer("interleaved", 0) != 0,
                        .rotated = context.node.integer("rotary_embedding_dim", 0)};
  label_rotation(context, heads, form, {2, 3});
}

constexpr OpDef kOps[] = {
    {.type = "com.microsoft.MultiHeadAttention",
     .attributes = "mask_filter_value num_heads scale unidirectional",
     .min_inputs = 1,
     .max_inputs = 10,
     .evaluate = multi_head,
     .infer = infer_multi_head,
     .cost = cost_multi_head,
     .labels = labels_multi_head,
     .rewrite = rewrite_multi_head},
    {.type = "com.microsoft.GroupQueryAttention",
     .attributes = "do_rotary k_quant_type kv_cache_bit_width kv_num_heads local_window_size num_heads qk_output "
                   "rotary_interleaved scale smooth_softmax softcap v_quant_type",
     .min_inputs = 7,
     .max_inputs = 14,
     .evaluate = group_query,
     .infer = infer_group_query,
     .cost = cost_group_query,
     .labels = labels_group_query,
     .rewrite = rewrite_group_query},
    {.type = "com.microsoft.RotaryEmbedding",
     .attributes = "interleaved is_packed_batching num_heads rotary_embedding_dim scale",
     .min_inputs = 4,
     .max_inputs = 4,
     .evaluate = rotary,
     .infer = infer_same,
     .cost = cost_rotary,
     .labels = labels_rotary,
     .rewrite = rewrite_rotation},
};

}  // namespace contrib_attention
}  // namespace

std::span<const OpDef> contrib_attention_ops() {
  static const std::vector<OpDef> all = joined({contrib_attention::kOps, packed_attention_ops()});
  return all;
}

}  // namespace pare
