// A merge method applied reader by reader.
//
// The channels that arrive at the places of a reader's axis by the same path (Skeletons) are one problem: multiples of
// kept ones (compensate/copies.h) are taken over exactly, for the others the method finds Z and c at the last
// activation, which the constants after it carry to the reader. What cannot be merged at a reader is removed there, and
// why is said.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "pare/compensate/copies.h"
#include "pare/compensate/merge.h"

namespace pare {

using MergeFunction = std::function<Merge(const MergeProblem&)>;

class ReaderMerging {
 public:
  ReaderMerging(const Graph& graph, const ChannelMap& map, const std::set<ChannelId>& removed)
      : graph_(graph),
        map_(map),
        removed_(removed),
        expressions_(channel_expressions(graph, map)),
        skeletons_(expressions_),
        copies_(graph, expressions_) {}

  // `merged` counts removed channels that every reader takes over; `reason` says what is left out and why.
  Merge merge(const ChannelGroup& group, const MergeFunction& method);

 private:
  // The places of a reader to which one path leads.
  struct Part {
    size_t slot = 0;
    int64_t part = kAllParts;
    std::vector<int64_t> channels;  // of the group
    std::vector<int64_t> places;
    std::vector<ExpressionId> expressions;
  };
  struct Solved {
    at::Tensor Z, c;
    std::vector<int64_t> kept, copies;
    std::set<int64_t> left;  // rows that nothing takes over
    std::string reason;      // why
  };
  struct Outcome {
    std::set<int64_t> left;          // channels of the group that some reader loses
    std::set<std::string> refusals;  // readers that could not be merged
    std::string reason;              // of the method
  };

  std::vector<Part> parts_of(const ChannelGroup& group, size_t slot);
  std::vector<ExpressionId> expressions_at(const Slot& slot) const;
  Solved solve(const ChannelGroup& group, const Part& part, const MergeFunction& method);
  void find_copies(const Part& part, const std::vector<int64_t>& removed, Solved& solved);
  void apply_method(const ChannelGroup& group, const Part& part, const MergeFunction& method, Solved& solved);
  void take(const Part& part, const Solved& solved, Merge& merge, Outcome& outcome) const;

  const Graph& graph_;
  const ChannelMap& map_;
  const std::set<ChannelId>& removed_;
  ChannelExpressions expressions_;
  Skeletons skeletons_;
  Copies copies_;
};

}  // namespace pare
