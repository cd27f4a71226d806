// The graph in the form that runs fastest forward.
#pragma once

#include "pare/graph.h"

namespace pare {

// Batch norms are folded; linear layers become oneDNN's with packed weights, bias and Relu in one (ops/fused.cpp); the
// weights of 2-D convolutions are laid out channels-last: ATen then keeps activations in that layout and oneDNN need
// not reorder them around every layer. The function is unchanged. For running without gradients only: such a graph is
// not written to a file.
Graph for_inference(const Graph& graph);

}  // namespace pare
