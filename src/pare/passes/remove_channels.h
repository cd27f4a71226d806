// Removes channels from a graph: one index_select for each (tensor, axis, labels) slot.
#pragma once

#include <set>

#include "pare/analysis/channels.h"
#include "pare/graph.h"

namespace pare {

// The graph without the given channels: it computes what the original does when every value is set to zero at those
// channels. Error{usage} when a channel is frozen, Error{shape} when nothing would be left along an axis.
Graph remove_channels(const Graph& graph, const ChannelMap& map, const std::set<ChannelId>& removed);

}  // namespace pare
