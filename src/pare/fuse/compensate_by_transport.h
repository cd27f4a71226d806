// Post-processing of structured pruning: the dense network is fused into the pruned one that was cut from it.
//
// Layer by layer the exact plan T carries the dense layer's neurons (marginal α) to the kept ones. A kept neuron costs
// nothing to be sent to itself, so what is sent elsewhere are the removed ones, spread over the kept ones by
// similarity. Rows stay those of the kept neurons: averaging neurons into each other would spoil them. Columns take in
// what a removed neuron r gave to the next layer as far as a kept neuron k can stand for it,
//
//   Ŵ = W C,   C[r, k] = T[r, k]/α_r · max(0, ⟨w_r, w_k⟩)/|w_k|²   and C[k, k] = 1 for the kept,
//
// where w are the rows with the scale of their batch norm: the projection of r on k, which a ReLU keeps where it is
// positive. Where a batch norm follows the layer that reads, its running statistics move by what the layer's outputs
// move, which follows from the batch norms before it. The result is (1−λ)·(the dense network so carried) + λ·(the
// pruned one).
#pragma once

#include "pare/core/graph.h"

namespace pare {

// Error{shape} unless both have the same nodes, and the pruned one channels that the dense one has.
Graph compensate_by_transport(const Graph& dense, const Graph& pruned, double lambda = 0);

}  // namespace pare
