// Channel groups of a network by elimination: which channels go first, and what each width costs.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/graph.h"
#include "pare/layerwise/statistics.h"

namespace pare {

struct GroupElimination {
  size_t group = 0;
  std::vector<ChannelId> order;  // channels that may go, the first to go first
  std::vector<double> error;     // without the first i + 1 of them
  std::string reason;            // why there is no order, if so
};

// One group. `fisher` are roots that weigh the outputs of readers (layerwise/fisher.h); one that it does not name
// counts its outputs alike.
GroupElimination eliminate_group(const Graph& graph, const ChannelMap& map, size_t group,
                                 const std::map<size_t, ReaderStatistics>& statistics,
                                 const std::map<size_t, at::Tensor>& fisher, double ridge);

// The weights with which the readers of a group do best without the channels `removed`, zero at these: by node, the
// layer's weight by group and the change of its bias.
struct ReaderSolution {
  at::Tensor weight;  // as weight_by_group
  at::Tensor offset;  // double [outputs]
};
std::map<size_t, ReaderSolution> solve_readers(const Graph& graph, const ChannelMap& map, size_t group,
                                               const std::set<ChannelId>& removed,
                                               const std::map<size_t, ReaderStatistics>& statistics, double ridge);

}  // namespace pare
