// Recurrences over tokens of opset 27: LinearAttention, whose state is a matrix for each head, and CausalConvWithState,
// a depthwise convolution that looks back.
//
//   S_t = e^{g_t} S_{t−1} + k_t ⊗ u_t,  o_t = scale · S_tᵀ q_t
//   u_t = v_t (linear, gated), or β_t (v_t − (e^{g_t} S_{t−1})ᵀ k_t) (delta, gated_delta); g_t = 0 where nothing decays
#include <ATen/ATen.h>

#include <cmath>

#include "pare/ops/attention.h"
#include "pare/ops/common.h"
#include "pare/ops/subfamilies.h"

namespace pare {
namespace {
namespace linear_attention {

using at::Tensor;
using Tensors = std::vector<Tensor>;

struct Rule {
  bool gated = false;
  bool delta = false;
};

Rule rule_of(const Node& node, bool has_decay, bool has_beta) {
  const std::string name = node.text("update_rule", "gated_delta");
  const Rule rule{name.starts_with("gated"), name.ends_with("delta")};
  if (name != "linear" && name != "gated" && name != "delta" && name != "gated_delta")
    throw Error(ErrorKind::unsupported, describe(node), "has the update rule '{}'", name);
  if (rule.gated != has_decay || rule.delta != has_beta)
    throw Error(ErrorKind::format, describe(node), "the update rule '{}' does not go with its inputs", name);
  return rule;
}

struct Heads {
  int64_t q, kv;
};

Heads heads_of(const Node& node) {
  const Heads heads{node.integer("q_num_heads", 0), node.integer("kv_num_heads", 0)};
  if (heads.q < 1 || heads.kv < 1 || heads.q % heads.kv != 0 || heads.q > (1 << 20))
    throw Error(ErrorKind::format, describe(node), "has {} heads of queries and {} of keys", heads.q, heads.kv);
  return heads;
}

Tensors evaluate(const EvalContext& context) {
  const Node& node = context.node;
  const Heads heads = heads_of(node);
  const Rule rule = rule_of(node, context.has(4), context.has(5));
  const Tensor q = split_heads(context.in(0), heads.q, node);
  const Tensor k = split_heads(context.in(1), heads.kv, node);
  const Tensor v = split_heads(context.in(2), heads.kv, node);
  check_heads(q.sizes(), k.sizes(), v.sizes(), node);
  if (q.size(2) != k.size(2))
    throw Error(ErrorKind::shape, describe(node), "has {} queries for {} keys", q.size(2), k.size(2));
  constexpr int64_t most_tokens = 1'000'000;  // many tokens of nothing take no memory, but time
  if (q.size(2) > most_tokens)
    throw Error(ErrorKind::unsupported, describe(node), "goes over {} tokens, more than {}", q.size(2), most_tokens);
  const int64_t d_k = q.size(3);
  Tensor decay, beta;
  if (rule.gated) decay = split_heads(context.in(4), heads.kv, node).exp();
  if (rule.delta) beta = split_heads(context.in(5), context.in(5).size(-1) == 1 ? 1 : heads.kv, node);
  double scale = node.real("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(d_k, 1)));
  Tensor state = context.has(3) ? context.in(3) : at::zeros({q.size(0), heads.kv, d_k, v.size(3)}, q.options());
  Tensors outputs;
  for (int64_t t = 0; t < q.size(2); ++t) {
    if (rule.gated) state = state * decay.select(2, t).unsqueeze(-1);
    const Tensor key = k.select(2, t);
    Tensor update = v.select(2, t);
    if (rule.delta)
      update = beta.select(2, t) * (update - at::matmul(state.transpose(2, 3), key.unsqueeze(-1)).squeeze(-1));
    state = state + key.unsqueeze(-1) * update.unsqueeze(-2);
    const Tensor read = heads.q == heads.kv ? state : state.repeat_interleave(heads.q / heads.kv, 1);
    outputs.push_back(at::matmul(q.select(2, t).unsqueeze(-2), read).squeeze(-2) * scale);
  }
  const Tensor y = outputs.empty() ? at::zeros({q.size(0), heads.q, 0, v.size(3)}, q.options()) : at::stack(outputs, 2);
  return {join_heads(y), state};
}

std::vector<TensorType> infer(const InferContext& context) {
  const Heads heads = heads_of(context.node);
  const TensorType& q = context.in(0);
  const TensorType& v = context.in(2);
  if (q.rank() != 3 || v.rank() != 3)
    throw Error(ErrorKind::shape, describe(context.node), "{} and {} do not hold heads", to_string(q.dims),
                to_string(v.dims));
  const int64_t d_k = q.dims[2] / heads.q, d_v = v.dims[2] / heads.kv;
  const auto state = context.has(3) ? context.in(3).dtype : q.dtype;
  return {{q.dtype, {q.dims[0], q.dims[1], heads.q * d_v}}, {state, {q.dims[0], heads.kv, d_k, d_v}}};
}

Cost cost(const CostContext& context) {
  const Shape& state = context.outputs.size() > 1 ? context.outputs[1].dims : Shape{};
  const int64_t macs = state.size() == 4 ? 3 * context.inputs[0].dims[1] * context.outputs[1].count() : 0;
  return {.macs = macs, .flops = 2 * macs};
}

// --- CausalConvWithState: x [batch, channels, length], weight [channels, 1, k], bias, past [batch, channels, k − 1]

void check_convolution(const Node& node, std::span<const int64_t> x, std::span<const int64_t> w) {
  if (x.size() != 3 || w.size() != 3 || w[0] != x[1] || w[1] != 1 || w[2] < 1)
    throw Error(ErrorKind::shape, describe(node), "a weight of {} for {}", to_string(w), to_string(x));
}

Tensors causal_convolution(const EvalContext& context) {
  const Node& node = context.node;
  const Tensor& x = context.in(0);
  const Tensor& w = context.in(1);
  check_convolution(node, x.sizes(), w.sizes());
  const int64_t before = w.size(2) - 1;
  const Tensor past = context.has(3) ? context.in(3) : at::zeros({x.size(0), x.size(1), before}, x.options());
  if (past.sizes() != at::IntArrayRef{x.size(0), x.size(1), before})
    throw Error(ErrorKind::shape, describe(node), "a past of {} for {}", to_string(past.sizes()), to_string(x.sizes()));
  const Tensor all = at::cat({past, x}, 2);
  Tensor y = x.numel() == 0 ? x
                            : at::convolution(all, w, context.has(2) ? context.in(2) : Tensor(), {1}, {0}, {1}, false,
                                              {0}, x.size(1));
  const std::string activation = node.text("activation", "none");
  if (activation == "silu" || activation == "swish")
    y = at::silu(y);
  else if (activation != "none")
    throw Error(ErrorKind::unsupported, describe(node), "has the activation '{}'", activation);
  return {y, all.narrow(2, all.size(2) - before, before)};
}

std::vector<TensorType> infer_causal_convolution(const InferContext& context) {
  check_convolution(context.node, context.in(0).dims, context.in(1).dims);
  TensorType past = context.in(0);
  past.dims[2] = context.in(1).dims[2] - 1;
  return {context.in(0), past};
}

Cost cost_causal_convolution(const CostContext& context) {
  const int64_t macs = context.outputs[0].count() * context.inputs[1].dims[2];
  return {.macs = macs, .flops = 2 * macs};
}

// A depthwise layer: channels pass through.
void labels_causal_convolution(LabelContext& context) {
  const bool state = context.has(3) || (context.node.outputs.size() > 1 && !context.node.outputs[1].empty());
  if (!context.is_parameter(1) || (context.has(2) && !context.is_parameter(2)) || state)
    return context.freeze_inputs(fmt::format("{} has a weight or a state that is computed", describe(context.node)));
  if (!context.ids(0).defined()) return;
  const auto ids = context.along(0, 1);
  context.slot(1, 0, ids, SlotRole::pass);
  if (context.has(2)) context.slot(2, 0, ids, SlotRole::pass);
  context.set(0, ids, 1);
}

constexpr OpDef kOps[] = {
    {.type = "LinearAttention",
     .attributes = "chunk_size kv_num_heads q_num_heads scale update_rule",
     .since = 27,
     .min_inputs = 3,
     .max_inputs = 6,
     .evaluate = evaluate,
     .infer = infer,
     .cost = cost,
     .labels = labels_frozen},
    {.type = "CausalConvWithState",
     .attributes = "activation",
     .since = 27,
     .min_inputs = 2,
     .max_inputs = 4,
     .evaluate = causal_convolution,
     .infer = infer_causal_convolution,
     .cost = cost_causal_convolution,
     .labels = labels_causal_convolution,
     .traits = {.learned = {1, 2}}},
};

}  // namespace linear_attention
}  // namespace

std::span<const OpDef> linear_attention_ops() { return linear_attention::kOps; }

}  // namespace pare
