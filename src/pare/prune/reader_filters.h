// The channels of a group as one of their readers sees them: filters with everything that lies between the layers that
// make them and the reader, read off their expressions (analysis/channel_expressions.h).
//
//   layer → [batch norm] → [activation] → post: scale·a + shift → reader
//
// Constants that are added or multiplied belong to the layer, to its batch norm, or, after an activation, to the post
// step. Pools, resizes and movement of data treat all channels alike and leave filters as they are. A depthwise layer
// and the one before it count as one (prune/filters.h). What is linear in several layers (a residual stream) has their
// filters side by side; an activation before another one or before a sum is looked through. A gate (a sigmoid that
// multiplies) is taken as the same for all channels.
#pragma once

#include <string>
#include <vector>

#include "pare/analysis/channel_expressions.h"
#include "pare/prune/filters.h"

namespace pare {

struct ReaderFilters {
  GroupFilters filters;
  at::Tensor scale;    // double [channels]; undefined = 1
  at::Tensor shift;    // double [channels]; undefined = 0
  std::string reason;  // why there are no filters, if so
};

// `channels` have the same skeleton (below). The weight of a single layer keeps its precision, at least single.
ReaderFilters reader_filters(const Graph& graph, const ChannelExpressions& expressions,
                             const std::vector<ExpressionId>& channels);

// Numbers that are equal for expressions with the same steps, whatever their rows, kernels and constants.
class Skeletons {
 public:
  explicit Skeletons(const ChannelExpressions& expressions) : expressions_(expressions) {}
  int64_t of(ExpressionId id);

 private:
  const ChannelExpressions& expressions_;
  std::map<ExpressionId, int64_t> known_;
  std::map<std::vector<int64_t>, int64_t> numbers_;
};

}  // namespace pare
