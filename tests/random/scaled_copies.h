// Channels of a graph made into exact multiples of others, wherever its structure lets a multiple stay one.
#pragma once

#include <set>

#include "pare/analysis/channels.h"
#include "pare/core/graph.h"

namespace pare {

struct ScaledCopies {
  Graph graph;
  std::set<ChannelId> copies;  // each an exact multiple of a channel that is not among them
  int64_t scaled = 0;          // how many of them are not equal to it
};

// In every group with two channels that go the same ways, one becomes s times the other in everything that it passes:
//   rows and biases of the layers that make it, added constants      times s
//   factors, slopes, kernels of depthwise layers                     equal
//   batch norms                                                      μ times what arrives, γ and β so that s leaves
// s = 1 where something on the way is not positively homogeneous. A layer that only a batch norm reads has a scale of
// its own, which the batch norm takes back.
ScaledCopies with_scaled_copies(const Graph& graph, const ChannelMap& map, uint64_t seed);

}  // namespace pare
