// Channels of a graph made into exact multiples of others, wherever its structure lets a multiple stay one.
#pragma once

#include <set>

#include "pare/analysis/channels.h"
#include "pare/graph.h"

namespace pare {

struct ScaledCopies {
  Graph graph;
  std::set<ChannelId> copies;  // each an exact multiple of a channel that is not among them
  int64_t factors = 0;         // other than 1, over all values that nothing ties together
};

// In every group with two channels that go the same ways, one becomes a multiple of the other in every value, with a
// factor that may be another after every step that can change it:
//   layers that make it               weights and biases times what leaves
//   batch norms, instance norms       μ times what arrives, β times what leaves, γ times their ratio
//   constant factors, depthwise ones  times the ratio of what leaves and what arrives
//   added constants                   times the factor
// The factor is 1 around what is not positively homogeneous.
ScaledCopies with_scaled_copies(const Graph& graph, const ChannelMap& map, uint64_t seed);

}  // namespace pare
