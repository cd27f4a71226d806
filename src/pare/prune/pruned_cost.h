// What is left of parameters or multiply-accumulates when channels go, without slicing anything: a tensor shrinks along
// each axis as its slots say, and a layer's multiply-accumulates as its weight does. Products of two computed values
// count in full, so that what is saved is never less than what this says.
#pragma once

#include <set>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/core/graph.h"
#include "pare/prune/budget.h"

namespace pare {

class PrunedCost {
 public:
  // Refers to the map. `budget` is params or macs.
  PrunedCost(const Graph& graph, const ChannelMap& map, Budget budget);

  double operator()(const std::set<ChannelId>& removed) const;

 private:
  struct Term {
    double size;
    std::vector<const Slot*> slots;
  };
  std::vector<Term> terms_;
};

}  // namespace pare
