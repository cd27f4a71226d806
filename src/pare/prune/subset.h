// Greedy column-subset selection: which channels to keep so that the others are best regressed on them.
//
// A reader with weights W sees of the channels, with covariance C, a loss tr(Q E) when only some are kept:
//   E = C − C_:K C_KK⁻¹ C_K:   what regression on K leaves of the channels,   Q = WᵀW   what the reader makes of it
// Greedily the channel with the largest gain (E Q E)_kk / E_kk is kept next; E loses its rank-one part E_:k E_k:/E_kk.
// A group with several readers sums their gains. The update is of rank one (layerwise/pivots.h), so all n steps
// together cost O(n³).
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/samples/samples.h"

namespace pare {

// What one reader sees of a group.
struct ReaderMoments {
  at::Tensor covariance;  // C, double [n, n]
  at::Tensor gram;        // Q, double [n, n]
};

// The channels in the order in which they would be kept.
std::vector<int64_t> greedy_order(const std::vector<ReaderMoments>& readers);

// What the readers of every prunable group see on these samples, of which each rank has a part, by index of group: of
// every place of what they read, its channels.
std::map<size_t, std::vector<ReaderMoments>> reader_moments(const Graph& graph, const ChannelMap& map,
                                                            const Samples& samples, Observer& observer = unobserved());

// The error if a channel goes and all that would be kept after it: what regression on those before it leaves of what
// the readers see, tr(Q E)/tr(Q C). 1 for the first, 0 for a channel that the others make; groups can be compared.
at::Tensor subset_importance(const std::vector<ReaderMoments>& readers);

}  // namespace pare
