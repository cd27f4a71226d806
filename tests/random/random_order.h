// Another order of all channels of a graph that may be exchanged, by the rules of analysis/exchange.h and nothing of
// fusion: applied entry by entry, so slowly that there is little to get wrong.
#pragma once

#include "pare/analysis/exchange.h"

namespace pare {

struct Reordered {
  Graph graph;
  int64_t channels = 0;  // how many there are
  int64_t free = 0;      // that may be exchanged with another
  int64_t moved = 0;
  std::vector<std::string> reasons;  // of those that are fixed
};

Reordered in_random_order(const Graph& graph, uint64_t seed);

}  // namespace pare
