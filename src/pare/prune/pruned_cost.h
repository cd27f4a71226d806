// What is left of parameters, bytes or multiply-accumulates when channels go, without slicing anything: a tensor
// shrinks along each axis as its slots say, and a layer's multiply-accumulates as its weight does. Products of two
// computed values count in full, so that what is saved is never less than what this says.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/graph.h"
#include "pare/prune/budget.h"

namespace pare {

class PrunedCost {
 public:
  // Refers to the map. `budget` is params, macs or bytes.
  PrunedCost(const Graph& graph, const ChannelMap& map, Budget budget);

  double operator()(const std::set<ChannelId>& removed) const;
  // Of each node that loses something when channels go: what is left of its part, by the node's number.
  std::map<size_t, double> parts_left(const std::set<ChannelId>& removed) const;

 private:
  struct Term {
    double size;
    size_t node;
    std::vector<const Slot*> slots;

    double left(const std::vector<char>& gone) const;  // the part that is
  };
  std::vector<char> gone(const std::set<ChannelId>& removed) const;  // is it, by the channel's number?

  std::vector<Term> terms_;
  size_t channels_ = 0;  // numbers in the map
};

}  // namespace pare
