// Merging: what the removed channels of a group did is taken over by the kept ones.
//
// For a group with channels a (all N of them) of which K are kept, a method finds
//   a ≈ Z a_kept + c                                   Z [N, K], c [N]
// and every layer that reads the channels takes the combination into its weights:
//   W_kept ← W Z,   bias ← bias + Σ W c                (over kernel positions; exact but where zeros pad the border)
// Rows of Z at kept channels are those of the identity unless a method changes those too.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/core/graph.h"

namespace pare {

// One group and what is to stay of it.
struct MergeProblem {
  const Graph& graph;
  const ChannelMap& map;
  const ChannelGroup& group;
  std::vector<int64_t> kept;     // places in group.channels, rising
  std::vector<int64_t> removed;  // the others
};

struct Merge {
  at::Tensor Z;        // double [N, K]
  at::Tensor c;        // double [N]; undefined = 0
  at::Tensor filters;  // double [K, d]: other filters for the kept channels (nmf); undefined = as they are
  int64_t merged = 0;  // removed channels with a row of Z that is not zero
  std::string reason;  // why nothing was merged, where so
};

MergeProblem merge_problem(const Graph& graph, const ChannelMap& map, const ChannelGroup& group,
                           const std::set<ChannelId>& removed);

// Z with the identity at kept channels and zeros elsewhere: plain pruning.
at::Tensor identity_merge(const MergeProblem& problem);

// The graph without the removed channels, with `merges` (by index of group) folded into every reader.
Graph remove_and_merge(const Graph& graph, const ChannelMap& map, const std::set<ChannelId>& removed,
                       const std::map<size_t, Merge>& merges);

}  // namespace pare
