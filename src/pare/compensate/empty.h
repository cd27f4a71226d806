// Channels that an unstructured mask has emptied, taken out without changing what the network computes:
//   unread    every weight that reads the channel is zero
//   constant  the filter that makes it is zero, so that it is one number for every input, act(bias): what its readers
//             make of that goes into their biases
// Taking one out may empty others before it, so this goes on until nothing is left to take.
#pragma once

#include "pare/analysis/channels.h"
#include "pare/graph.h"

namespace pare {

struct EmptyRemoved {
  Graph graph;
  int64_t unread = 0;  // channels
  int64_t constant = 0;
};

// One channel of every group stays.
EmptyRemoved remove_empty_channels(const Graph& graph, const ShapeOptions& shapes = {});

}  // namespace pare
