// Weight matching (Ainsworth, Hayase & Srinivasa, Git Re-Basin, ICLR 2023): coordinate descent over the layers. For one
// layer with all other maps held, the permutation that maximises the inner product with the target's weights,
//
//   max over P of ⟨W_B(l), P W_A(l) P_{l−1}ᵀ⟩ + ⟨W_B(l+1)ᵀ, P W_A(l+1)ᵀ P_{l+1}ᵀ⟩,
//
// is an assignment whose gain sums incoming and outgoing weights. Layers come in random order until none changes. Where
// widths differ the step is an exact transport of the squared distances of incoming and outgoing weights. Channels in
// blocks are matched inside them, and blocks (fuse/blocks.h) in a step of their own after every sweep.
//
// Merging many: every network in turn is matched to the mean of all others as they are aligned, until none changes.
#pragma once

#include <vector>

#include "pare/fuse/optimal_transport.h"

namespace pare {

struct WeightMatchingOptions {
  ColumnScaling scaling = ColumnScaling::preserving;  // where widths differ
  int64_t sweeps = 50;                                // over all layers, at most
  int64_t rounds = 10;                                // over all networks, when merging many
  uint64_t seed = 0;
};

// Starts from the maps of `start`, of which every class must have one; its class reports are brought up to date.
Alignment match_weights(const Network& source, const Network& target, Alignment start,
                        const WeightMatchingOptions& options, Observer& observer = unobserved());

// All networks have the reference's topology and widths or other widths; `alignments` are their maps onto the
// reference.
void match_many(const std::vector<Network>& networks, const Network& reference, std::vector<Alignment>& alignments,
                const WeightMatchingOptions& options, Observer& observer = unobserved());

}  // namespace pare
