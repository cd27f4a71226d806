// Merging: what the removed channels of a group did is taken over by the kept ones.
//
// For a group with channels a (all N of them) of which K are kept, a method finds
//   a ≈ Z a_kept + c                                   Z [N, K], c [N]
// and every layer that reads the channels takes the combination into its weights:
//   W_kept ← W Z,   bias ← bias + Σ W c                (over kernel positions; exact but where zeros pad the border)
// Rows of Z at kept channels are those of the identity unless a method changes those too. What lies between the layers
// that make the channels and a reader (a batch norm, a pool, a concatenation) is the reader's own: where readers
// differ, each has its own Z and c.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/graph.h"
#include "pare/prune/reader_filters.h"

namespace pare {

// Channels of a group, and which of them are to stay.
struct MergeProblem {
  const Graph& graph;
  const ChannelMap& map;
  const ChannelGroup& group;
  std::vector<int64_t> kept;              // places in group.channels, rising; or rows of the reader's filters
  std::vector<int64_t> removed;           // the others
  const ReaderFilters* reader = nullptr;  // the channels as one reader sees them
  int64_t size() const { return static_cast<int64_t>(kept.size() + removed.size()); }
};
// Those of the reader; without one, what group_filters() follows.
GroupFilters filters_of(const MergeProblem& problem, at::ScalarType type = at::kDouble);

inline constexpr int64_t kAllParts = -1;

// Z and c at the places of a reader's axis that the same path leads to.
struct ReaderMerge {
  size_t slot = 0;              // of the reader's weight, in ChannelMap::slots
  int64_t part = kAllParts;     // the group of its convolution that reads them
  std::vector<int64_t> places;  // along the slot's axis, a row of Z each
  std::vector<int64_t> kept;    // rows that stay, a column of Z each
  at::Tensor Z;                 // double [places, kept]
  at::Tensor c;                 // double [places]; undefined = 0
  std::vector<int64_t> copies;  // rows that are exact multiples of a kept one
};

struct Merge {
  at::Tensor Z;        // double [N, K], for every reader alike where `readers` is empty
  at::Tensor c;        // double [N]; undefined = 0
  at::Tensor filters;  // double [K, d]: other filters for the kept channels (nmf); undefined = as they are
  int64_t merged = 0;  // removed channels with a row of Z that is not zero
  std::string reason;  // why nothing was merged, if so
  std::vector<ReaderMerge> readers;  // where readers differ
};

// Places as ATen takes an index.
at::Tensor index_of(const std::vector<int64_t>& places);

MergeProblem merge_problem(const Graph& graph, const ChannelMap& map, const ChannelGroup& group,
                           const std::set<ChannelId>& removed);

// Z with the identity at kept channels and zeros elsewhere: plain pruning.
at::Tensor identity_merge(const MergeProblem& problem);

// Why the reader at a slot has no place for an offset; empty when it has one.
std::string offset_refusal(const Graph& graph, const Slot& slot);

// The graph with the copies among `merges` folded into every reader's weight, all channels still there: those that
// were taken over are read with weight 0. Offsets are left out.
Graph fold_copies(const Graph& graph, const ChannelMap& map, const std::map<size_t, Merge>& merges);

// The graph without the removed channels, with `merges` (by index of group) folded into every reader.
Graph remove_and_merge(const Graph& graph, const ChannelMap& map, const std::set<ChannelId>& removed,
                       const std::map<size_t, Merge>& merges);

}  // namespace pare
