// Post-processing of structured pruning as published (Singh & Jaggi: Model Fusion via Optimal Transport, NeurIPS 2020,
// section 5.2): the dense network A is fused into the pruned one B that was cut from it.
//
// Layer by layer T carries A's neurons to B's (fuse/optimal_transport.h: Euclidean distances of rows with their biases,
// uniform marginals), rows and columns are averages, W̃ = diag(1/β) Tᵀ W_A T' diag(1/β'), and the result is
// (1 − λ) W̃ + λ W_B with λ = ½. compensate/transport.h is the form that leaves the kept neurons as they are.
#pragma once

#include <set>

#include "pare/analysis/channels.h"
#include "pare/graph.h"

namespace pare {

// The dense graph without the channels of analyze_channels(dense) that are `removed`.
Graph compensate_by_transport(const Graph& dense, const std::set<ChannelId>& removed, double lambda = 0.5);

}  // namespace pare
