#include "pare/inspect.h"

#include <algorithm>

#include "pare/analysis/channels.h"
#include "pare/analysis/cost.h"
#include "pare/analysis/exchange.h"

namespace pare {

namespace {

std::vector<std::string> nodes_of(const Graph& graph, const ChannelMap& map, const std::vector<size_t>& slots) {
  std::vector<std::string> names;
  for (const size_t slot : slots) {
    const std::string& name = graph.nodes[map.slots[slot].node].name;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

}  // namespace

Inspection inspect(const Graph& graph) {
  const ChannelMap map = analyze_channels(graph);
  const ExchangeMap exchange = analyze_exchange(graph);
  Inspection result{.cost = cost_of(graph, map.shapes), .unknown_shapes = map.shapes.unknown};
  for (const auto& group : map.groups) {
    const GroupExchange order = exchange_in(exchange, map, group);
    const auto channels = static_cast<int64_t>(group.channels.size());
    result.groups.push_back({.name = group.name,
                             .channels = channels,
                             .removable = channels - static_cast<int64_t>(group.frozen),
                             .reason = group.reason,
                             .permutable = order.permutable,
                             .fixed = order.fixed,
                             .blocks = order.blocks,
                             .fixed_reason = order.reason,
                             .producers = nodes_of(graph, map, group.producers),
                             .consumers = nodes_of(graph, map, group.consumers)});
  }
  return result;
}

}  // namespace pare
