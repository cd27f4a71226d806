// A compensation of given channels, with nobody watching.
#pragma once

#include <set>
#include <vector>

#include "pare/compensate/compensate.h"

namespace pare {

inline Compensated compensated(const Graph& graph, const ChannelMap& map, const std::set<ChannelId>& removed,
                               const Compensation& method, const CompensateOptions& options = {},
                               const std::vector<at::Tensor>& inputs = {}) {
  Observer nobody;
  return compensate(graph, map, cuts_of(map, removed), method, options, samples_of(inputs), nobody);
}

}  // namespace pare
