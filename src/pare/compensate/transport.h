// Post-processing of structured pruning by optimal transport, after Singh & Jaggi (Model Fusion via Optimal Transport,
// NeurIPS 2020, section 5.2), with the rows of the kept neurons as they are.
//
// The exact plan T carries all neurons of a layer (marginal α) to the kept ones (uniform). A kept neuron costs nothing
// to be sent to itself, so what is sent elsewhere are the removed ones, spread over the kept ones by similarity.
// Averaging neurons into each other would spoil them; readers take in what a removed neuron r gave as far as a kept
// neuron k can stand for it:
//
//   Z[r, k] = T[r, k]/α_r · max(0, ⟨w_r, w_k⟩)/|w_k|²
//
// where w are the rows with the scale of their batch norm: the projection of r on k, which a ReLU keeps where it is
// positive. Where a batch norm follows the layer that reads, its running statistics move by what the layer's outputs
// move, which follows from the batch norms before it.
//
// The published form, an average of the dense network and the pruned one, is fuse/compensate_by_transport.h.
#pragma once

#include "pare/compensate/merge.h"

namespace pare {

Merge transport(const MergeProblem& problem);

// The statistics of batch norms after layers that lost inputs, moved from those in `dense` (whose exact copies are
// folded already) to those in `pruned`, as far as that follows from a batch norm and a ReLU before the layer.
Graph move_statistics(const Graph& dense, const Graph& pruned, const ChannelMap& map,
                      const std::set<ChannelId>& removed);

}  // namespace pare
