// The graph in the form that runs fastest forward.
#pragma once

#include "pare/core/graph.h"

namespace pare {

// Batch norms are folded, and the weights of 2-D convolutions are laid out channels-last: ATen then keeps activations
// in that layout and oneDNN need not reorder them around every layer. The function is unchanged.
Graph for_inference(const Graph& graph);

}  // namespace pare
