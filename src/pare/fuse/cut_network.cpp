#include "pare/fuse/cut_network.h"

#include <ATen/ATen.h>

#include "pare/passes/remove_channels.h"

namespace pare {

namespace {

using Indices = std::map<std::pair<int64_t, int64_t>, int64_t>;  // (class, index in the whole) -> index in what is left

// Numbers the channels that are left, class by class.
Indices left_indices(const Network& network, const std::set<ChannelId>& removed) {
  std::map<std::pair<int64_t, int64_t>, int64_t> ids;
  for (const auto& [id, place] : network.places) ids[{place.channel_class, place.index}] = id;
  Indices left;
  std::map<int64_t, int64_t> count;
  for (const auto& [where, id] : ids)
    if (!removed.contains(ChannelId{id})) left[where] = count[where.first]++;
  return left;
}

}  // namespace

Network cut_network(const Network& network, const std::set<ChannelId>& removed) {
  const Indices left = left_indices(network, removed);
  Network cut = network;
  cut.graph = remove_channels(network.graph, network.map, removed);
  for (ChannelClass& made : cut.classes) made.size = 0;
  for (const auto& [where, index] : left) ++cut.classes[static_cast<size_t>(where.first)].size;
  const auto gone = [&](const Place& place) {
    return place.channel_class >= 0 && !left.contains({place.channel_class, place.index});
  };
  const auto renumber = [&](Place& place) {
    if (place.channel_class >= 0) place.index = left.at({place.channel_class, place.index});
  };
  for (ParameterUse& use : cut.uses)
    for (PlacedSlot& slot : use.slots) {
      std::erase_if(slot.places, gone);
      for (Place& place : slot.places) renumber(place);
    }
  std::erase_if(cut.places, [&](const auto& entry) { return gone(entry.second); });
  for (auto& [id, place] : cut.places) renumber(place);
  return cut;
}

}  // namespace pare
