// The channels of a group as vectors: what criteria rank and merging compares.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/analysis/layers.h"
#include "pare/graph.h"

namespace pare {

// Entries of a slot's tensor that belong to each channel of the group, as rows: [channels, entries]. A channel with
// fewer places than another (it is concatenated once less) has zeros at the end.
at::Tensor rows_by_channel(const Graph& graph, const ChannelGroup& group, const Slot& slot,
                           at::ScalarType type = at::kDouble);

// What an activation does to a tensor whose first axis holds the channels.
using ChannelFunction = std::function<at::Tensor(const at::Tensor&)>;
// Of an operator that computes every element by itself; nothing where one of its parameters is computed.
ChannelFunction activation_function(const Graph& graph, const Node& node);

// A channel group whose channels one layer makes, with what follows it on the way to its readers:
//   layer → [batch norm] → [activation] → [depthwise → [batch norm] → [activation]] → … → readers
// or, where several layers make them (a residual stream), only the rows.
struct GroupFilters {
  std::string layer;                   // name of the node that makes the channels; empty when there are several
  at::Tensor weight;                   // [channels, d]; several layers: their rows side by side, folded
  at::Tensor bias;                     // double [channels]; zeros without one
  std::optional<NormParameters> norm;  // of the last batch norm before the first reader
  at::Tensor depthwise;                // double [channels, k]: the kernels between, undefined without
  // The last activation before the first reader; nothing when there is none.
  ChannelFunction activation;

  bool single() const { return !layer.empty(); }
  // [channels, d]: the weight; the outer product with the depthwise filter where there is one.
  at::Tensor rows() const;
  // double [channels, d + 1]: the rows as the batch norm scales them, then the bias
  at::Tensor folded() const;
  // What the papers rank and compare: the rows, with the bias appended where no batch norm and no depthwise layer
  // takes it away.
  at::Tensor vectors() const;
};
// `type` is that of `weight` where one layer makes the channels; double elsewhere.
GroupFilters group_filters(const Graph& graph, const ChannelMap& map, const ChannelGroup& group,
                           at::ScalarType type = at::kDouble);

}  // namespace pare
