// Attention and RotaryEmbedding as opsets 23 to 25 have them. Inputs of Attention: q, k, v, mask, past keys, past
// values, lengths.
#include "pare/ops/attention.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "pare/ops/common.h"
#include "pare/ops/dtype.h"
#include "pare/ops/families.h"
#include "pare/ops/subfamilies.h"

namespace pare {
namespace {
namespace attention {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr double kNever = -std::numeric_limits<double>::infinity();

int64_t heads_of(const Node& node, const std::string& attribute, std::span<const int64_t> dims) {
  if (dims.size() == 4) return dims[1];
  const int64_t heads = node.integer(attribute, 0);
  if (dims.size() != 3 || heads < 1 || dims[2] % heads != 0)
    throw Error(ErrorKind::shape, describe(node), "{} does not hold {} heads", to_string(dims), heads);
  return heads;
}

Tensor with_heads(const Node& node, const Tensor& x, const std::string& attribute) {
  const int64_t heads = heads_of(node, attribute, x.sizes());
  return x.dim() == 4 ? x : split_heads(x, heads, node);
}

// [batch, heads, length, size] of a value of three axes or four.
Shape dims_with_heads(const Node& node, const Shape& dims, const std::string& attribute) {
  const int64_t heads = heads_of(node, attribute, dims);
  return dims.size() == 4 ? dims : Shape{dims[0], heads, dims[1], dims[2] / heads};
}

// A mask of flags or of numbers as what is added to the scores; a mask that ends early hides the keys after it.
Tensor bias_of(const Node& node, const Tensor& mask, int64_t keys, const at::TensorOptions& options) {
  Tensor bias = mask.scalar_type() == at::kBool
                    ? at::zeros(mask.sizes(), options).masked_fill(at::logical_not(mask), kNever)
                    : mask.to(options.dtype().toScalarType());
  if (bias.dim() == 0) return bias;
  if (bias.size(-1) > keys && bias.size(-1) != 1)
    throw Error(ErrorKind::shape, describe(node), "a mask of {} for {} keys", to_string(mask.sizes()), keys);
  return bias.size(-1) < keys && bias.size(-1) != 1 ? at::constant_pad_nd(bias, {0, keys - bias.size(-1)}, kNever)
                                                    : bias;
}

AttentionForm form_of(const Node& node, int64_t size) {
  AttentionForm form{.scale = node.real("scale", 1 / std::sqrt(static_cast<double>(std::max<int64_t>(size, 1)))),
                     .softcap = node.real("softcap", 0),
                     .causal = node.integer("is_causal", 0) != 0,
                     .left = node.integer("left_window_size", -1),
                     .right = node.integer("right_window_size", -1)};
  if (const int64_t code = node.integer("softmax_precision", 0); code != 0)
    form.softmax_type = dtype_from_onnx(code, node);
  if (form.left < -1 || form.right < -1)
    throw Error(ErrorKind::format, describe(node), "has a window of {} and {}", form.left, form.right);
  return form;
}

Tensors evaluate(const EvalContext& context) {
  const Node& node = context.node;
  const Tensor q = with_heads(node, context.in(0), "q_num_heads");
  Tensor k = with_heads(node, context.in(1), "kv_num_heads");
  Tensor v = with_heads(node, context.in(2), "kv_num_heads");
  Tensor offset;
  if (context.has(4) != context.has(5))
    throw Error(ErrorKind::format, describe(node), "has past keys or past values, but not both");
  if (context.has(4)) {
    if (context.in(4).dim() != 4) throw Error(ErrorKind::shape, describe(node), "its past keys have no heads");
    offset = at::scalar_tensor(context.in(4).size(2), at::kLong);
    k = at::cat({context.in(4), k}, 2);
    v = at::cat({context.in(5), v}, 2);
  }
  check_heads(q.sizes(), k.sizes(), v.sizes(), node);
  const int64_t keys = k.size(2);
  Tensor bias = context.has(3) ? bias_of(node, context.in(3), keys, q.options()) : Tensor();
  if (context.has(6)) {
    const Tensor lengths = context.in(6).to(at::kLong);
    if (lengths.dim() != 1 || lengths.size(0) != q.size(0))
      throw Error(ErrorKind::shape, describe(node), "has {} lengths for {} samples", lengths.numel(), q.size(0));
    if (!offset.defined()) offset = lengths - q.size(2);
    const Tensor padding = at::arange(keys, at::kLong).reshape({1, 1, 1, -1}) >= lengths.reshape({-1, 1, 1, 1});
    const Tensor hidden = at::zeros(padding.sizes(), q.options()).masked_fill(padding, kNever);
    bias = bias.defined() ? bias + hidden : hidden;
  }
  const AttentionResult result = attend(q, k, v, bias, offset, form_of(node, q.size(3)));
  const Tensor y = context.in(0).dim() == 3 ? join_heads(result.output) : result.output;
  const int64_t mode = node.integer("qk_matmul_output_mode", 0);
  const Tensor& scores = mode == 3   ? result.shares
                         : mode == 2 ? result.biased
                         : mode == 1 ? result.capped
                                     : result.products;
  return {y, k, v, scores};
}

std::vector<TensorType> infer(const InferContext& context) {
  const Node& node = context.node;
  const Shape q = dims_with_heads(node, context.in(0).dims, "q_num_heads");
  Shape k = dims_with_heads(node, context.in(1).dims, "kv_num_heads");
  Shape v = dims_with_heads(node, context.in(2).dims, "kv_num_heads");
  if (context.has(4) && context.in(4).rank() == 4) k[2] += context.in(4).dims[2], v[2] += context.in(4).dims[2];
  check_heads(q, k, v, node);
  const auto dtype = context.in(0).dtype;
  const TensorType y{dtype, context.in(0).rank() == 3 ? Shape{q[0], q[2], q[1] * v[3]} : Shape{q[0], q[1], q[2], v[3]}};
  return {y, {dtype, k}, {context.in(2).dtype, v}, {dtype, {q[0], q[1], q[2], k[2]}}};
}

Cost cost(const CostContext& context) {
  const Shape q = dims_with_heads(context.node, context.inputs[0].dims, "q_num_heads");
  const Shape k = dims_with_heads(context.node, context.inputs[1].dims, "kv_num_heads");
  const Shape v = dims_with_heads(context.node, context.inputs[2].dims, "kv_num_heads");
  const bool past = context.inputs.size() > 4 && context.inputs[4].rank() == 4;
  return cost_of_attention(q, k[2] + (past ? context.inputs[4].dims[2] : 0), v[3]);
}

bool is_given(const LabelContext& context, size_t output) {
  return output < context.node.outputs.size() && !context.node.outputs[output].empty();
}

void labels(LabelContext& context) {
  const Node& node = context.node;
  const bool cached = context.has(4) || context.has(5) || is_given(context, 1) || is_given(context, 2);
  if (cached) return context.freeze_inputs(fmt::format("{} keeps keys and values of all heads", describe(node)));
  const bool by_head =
      context.has(3) && context.inputs[3].rank() >= 3 && context.inputs[3].dims[context.inputs[3].dims.size() - 3] > 1;
  if (by_head || is_given(context, 3))
    return context.freeze_inputs(fmt::format("{} has a mask or scores for each head", describe(node)));
  if (context.for_exchange())
    return context.freeze_inputs(fmt::format("the heads of {} are not exchanged", describe(node)));
  label_heads(context, heads_of(node, "q_num_heads", context.inputs[0].dims),
              heads_of(node, "kv_num_heads", context.inputs[1].dims));
}

void rewrite(RewriteContext& context) {
  rewrite_scale(context, "q_num_heads");
  rewrite_heads(context, 0, "q_num_heads");
  rewrite_heads(context, 1, "kv_num_heads");
}

// --- RotaryEmbedding: inputs x, cosines, sines, positions

Tensors rotary(const EvalContext& context) {
  const Node& node = context.node;
  const Tensor& x = context.in(0);
  const Tensor positions = context.has(3) ? context.in(3) : Tensor();
  const auto rows = [&](size_t i) {
    return positions.defined() ? rows_at(node, context.in(i), positions) : context.in(i);
  };
  const Tensor y = rotate(
      with_heads(node, x, "num_heads"), rows(1), rows(2),
      {.interleaved = node.integer("interleaved", 0) != 0, .rotated = node.integer("rotary_embedding_dim", 0)}, node);
  return {x.dim() == 3 ? join_heads(y) : y};
}

Cost cost_rotary(const CostContext& context) { return {.flops = 3 * context.outputs[0].count()}; }

void labels_rotary(LabelContext& context) {
  if (!context.ids(0).defined()) return;
  const RotaryForm form{.interleaved = context.node.integer("interleaved", 0) != 0,
                        .rotated = context.node.integer("rotary_embedding_dim", 0)};
  label_rotation(context, heads_of(context.node, "num_heads", context.inputs[0].dims), form, {1, 2});
}

constexpr OpDef kOps[] = {
    {.type = "Attention",
     .attributes = "is_causal kv_num_heads left_window_size q_num_heads qk_matmul_output_mode right_window_size scale "
                   "softcap softmax_precision",
     .since = 23,
     .min_inputs = 3,
     .max_inputs = 7,
     .evaluate = evaluate,
     .infer = infer,
     .cost = cost,
     .labels = labels,
     .rewrite = rewrite},
    {.type = "RotaryEmbedding",
     .attributes = "interleaved num_heads rotary_embedding_dim",
     .since = 23,
     .min_inputs = 3,
     .max_inputs = 4,
     .evaluate = rotary,
     .infer = infer_same,
     .cost = cost_rotary,
     .labels = labels_rotary,
     .rewrite = rewrite_rotation},
};

}  // namespace attention
}  // namespace

std::span<const OpDef> attention_ops() {
  static const std::vector<OpDef> all = joined({attention::kOps, contrib_attention_ops(), linear_attention_ops()});
  return all;
}

}  // namespace pare
