// Layers of transformers on tokens [N, length, width], with timm's and Hugging Face's names for their parameters. A
// linear layer over tokens is MatMul and Add, as exporters write it, so that its weight lies [inputs, outputs] in the
// graph; PyTorch and its checkpoints have it the other way round (zoo/match.h).
#pragma once

#include <string>

#include "pare/zoo/builder.h"

namespace pare {

// x W + b over the last axis. The nodes are NAME.matmul and NAME.
BuiltValue token_linear(GraphBuilder& b, const BuiltValue& x, const std::string& name, int64_t out, bool bias = true);
BuiltValue token_norm(GraphBuilder& b, const BuiltValue& x, const std::string& name, double epsilon);
// x as [N, length, …split, width / Π split], and what axes it then has, as places of the old ones (the batch is 0).
BuiltValue split_and_turn(GraphBuilder& b, const BuiltValue& x, const std::string& name, std::vector<int64_t> split,
                          const std::vector<int64_t>& order);
// softmax(q kᵀ / √size) v of q, k, v [N, heads, length, size], with the heads beside each other again:
// [N, length, heads · size]. Nodes are called NAME.…
BuiltValue attention_of_heads(GraphBuilder& b, const BuiltValue& q, const BuiltValue& k, const BuiltValue& v,
                              const std::string& name);
// The first token, [N, width].
BuiltValue first_token(GraphBuilder& b, const BuiltValue& x, const std::string& name);

}  // namespace pare
