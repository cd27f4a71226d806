// Folds a BatchNormalization into the layer before it.
#pragma once

#include "pare/graph.h"

namespace pare {

// y = γ (W x + b − μ)/σ + β with σ = sqrt(var + ε) is the layer W' = (γ/σ) W, b' = (γ/σ)(b − μ) + β.
// Folds wherever a Conv, ConvTranspose or Gemm with constant weights feeds a BatchNormalization and nothing else.
// The function of the graph in evaluation is unchanged.
Graph fold_batch_norm(const Graph& graph);

}  // namespace pare
