// Scaled dot-product attention as several operators spell it, on heads laid out [batch, heads, length, size].
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "pare/ops/labels.h"
#include "pare/ops/op.h"

namespace pare {

struct AttentionForm {
  double scale = 1;
  double softcap = 0;  // softcap · tanh(scores / softcap), where positive
  bool causal = false;
  int64_t left = -1;  // keys before (after) a query's own place that it sees; −1: all
  int64_t right = -1;
  std::optional<at::ScalarType> softmax_type;
};

struct AttentionResult {
  at::Tensor output;                            // [batch, heads of queries, length of queries, size of values]
  at::Tensor products, capped, biased, shares;  // q kᵀ scaled; capped; with bias; after the softmax
};

// Y = softmax(cap(scale · Q Kᵀ) + bias) V. `bias` broadcasts over the scores, undefined where there is none; `offset`
// is how many keys lie before the first query, one number or one for each sample. A query that sees no key gives zeros.
// Fewer heads of keys than of queries: each serves as many queries as it has to.
AttentionResult attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                       const at::Tensor& offset, const AttentionForm& form);

// [batch, length, heads · size] as [batch, heads, length, size], and back. Error{shape} names the node.
at::Tensor split_heads(const at::Tensor& x, int64_t heads, const Node& node);
at::Tensor join_heads(const at::Tensor& x);

// Checks that q, k and v of four axes go together; Error{shape} names the node.
void check_heads(std::span<const int64_t> q, std::span<const int64_t> k, std::span<const int64_t> v, const Node& node);

struct RotaryForm {
  bool interleaved = false;
  int64_t rotated = 0;  // entries of each head that turn; 0: all
};
// x [batch, heads, length, size]: pairs (x1, x2) become (cos x1 − sin x2, sin x1 + cos x2), with the cosines and sines
// of each place, [batch or 1, length, rotated / 2].
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const RotaryForm& form,
                  const Node& node);

// Rows of a table at positions [batch, length]. Error{format} names the node where one is outside it.
at::Tensor rows_at(const Node& node, const at::Tensor& table, const at::Tensor& positions);

// labels: heads of keys with the queries that they serve live or die as wholes, or dimensions of all heads. Inputs 0 to
// 2 are q, k and v of three axes (heads beside each other on the last) or four (heads on axis 1).
void label_heads(LabelContext& context, int64_t q_heads, int64_t kv_heads);

// rewrite: the attribute says how many heads of the input, three axes of it, are left.
void rewrite_heads(RewriteContext& context, size_t input, const std::string& attribute);

// rewrite: the scale that follows from a head's size stays where that changes. `attribute` counts the heads of input 0.
void rewrite_scale(RewriteContext& context, const std::string& attribute);

// labels and rewrite of a rotation of input 0 by the cosines and sines of `tables`: heads go as wholes, by dimension
// the pairs that turn together.
void label_rotation(LabelContext& context, int64_t heads, const RotaryForm& form, const std::vector<size_t>& tables);
void rewrite_rotation(RewriteContext& context);

// com.microsoft's attention: the scale that is stated, or else 1/√size; what is added to the scores of padding: flags
// [batch, keys], or the lengths of the samples; and the error for a form that is not computed.
double stated_scale(const Node& node, int64_t size);
at::Tensor padding_bias(const Node& node, const at::Tensor& mask, int64_t batch, int64_t keys,
                        const at::TensorOptions& options);
[[noreturn]] void refuse_form(const Node& node, std::string_view what);

// Multiply-accumulates of the two products, from the types of q, k (with what was cached) and v of four axes.
Cost cost_of_attention(const Shape& q, int64_t keys, int64_t v_size);

}  // namespace pare
