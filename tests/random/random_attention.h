// Attention of sequences [batch, length, width] in the spellings of today's exporters, with a shortcut around it.
#pragma once

#include "random/random_nodes.h"

namespace pare {

// Heads of queries that share keys or not, turned by tables or not, normalised or not, with a bias for each head or
// not, by MatMul or by Einsum.
RandomValue random_attention(RandomNodes& nodes, const RandomValue& x);
// x + (act(x A) ∘ x B) C, of two projections or of one that is split.
RandomValue random_gated_mlp(RandomNodes& nodes, const RandomValue& x);

}  // namespace pare
