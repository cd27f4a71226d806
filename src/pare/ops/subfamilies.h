// Parts of the operator families that have a file of their own; the family's list takes them in.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "pare/ops/op.h"

namespace pare {

std::span<const OpDef> einsum_ops();             // of matrix: Einsum
std::span<const OpDef> softmax_ops();            // of reduction: Softmax, LogSoftmax, Hardmax
std::span<const OpDef> ranking_ops();            // of reduction: ArgMax, ArgMin, TopK, CumSum
std::span<const OpDef> gather_ops();             // of indexing: Gather, GatherElements, GatherND
std::span<const OpDef> scatter_ops();            // of indexing: ScatterElements, ScatterND
std::span<const OpDef> grid_sample_ops();        // of resize: GridSample
std::span<const OpDef> quantization_ops();       // of constant: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear
std::span<const OpDef> layer_norm_ops();         // of normalization: LayerNormalization, RMSNormalization…
std::span<const OpDef> counting_ops();           // of indexing: Unique, TfIdfVectorizer
std::span<const OpDef> patch_ops();              // of regions: Col2Im, DeformConv
std::span<const OpDef> contrib_attention_ops();  // of attention: com.microsoft's
std::span<const OpDef> packed_attention_ops();   // of attention: com.microsoft.Attention
std::span<const OpDef> linear_attention_ops();   // of attention: LinearAttention, CausalConvWithState
std::span<const OpDef> random_ops();             // of constant: RandomNormalLike, RandomUniformLike, Bernoulli

inline std::vector<OpDef> joined(std::initializer_list<std::span<const OpDef>> parts) {
  std::vector<OpDef> all;
  for (const auto part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace pare
