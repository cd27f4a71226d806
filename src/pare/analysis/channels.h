// Channel groups: the answer to "which slices of which tensors belong to the same channel?" for a whole graph.
// Pruning, merging and fusion all stand on it. The rules of the operators are in ops/, the idea in ops/labels.h.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "pare/analysis/shapes.h"
#include "pare/graph.h"
#include "pare/ops/labels.h"

namespace pare {

// A representative id: every id united with it lives and dies with it.
enum class ChannelId : int64_t {};

// Channels that layers make together: one layer's output, or a residual stream with all the layers that add to it.
struct ChannelGroup {
  std::string name;                 // of the first node that makes them
  std::vector<ChannelId> channels;  // in the order of the first producer, without duplicates
  std::vector<size_t> producers;    // indices into ChannelMap::slots
  std::vector<size_t> consumers;
  std::vector<size_t> passes;
  size_t frozen = 0;   // how many of the channels may not be removed
  std::string reason;  // why, for the first frozen one
  bool prunable() const { return frozen < channels.size(); }
};

struct ChannelMap {
  Shapes shapes;  // for a batch of one
  ChannelSets sets;
  std::vector<Slot> slots;
  std::map<std::string, at::Tensor> values;  // ids carried by each value, as representatives
  std::map<std::string, at::Tensor> made;    // for an exchange: the same before they were united
  std::vector<ChannelGroup> groups;          // frozen ones too
};

ChannelMap analyze_channels(const Graph& graph, const ShapeOptions& options = {}, ChannelUse use = ChannelUse::removal);

// Why a graph has no groups: no layer makes channels, or those that do have no known shape, lie in subgraphs or are of
// operators that pare has no rule for.
std::string why_no_channels(const Graph& graph, const ChannelMap& map);

// Boolean mask shaped like the ids of a value (extent 1 or full): false where a channel is in `removed`.
at::Tensor keep_mask(const ChannelMap& map, const std::string& value, const std::set<ChannelId>& removed);

}  // namespace pare
