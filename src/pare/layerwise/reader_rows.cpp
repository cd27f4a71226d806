#include "pare/layerwise/reader_rows.h"

#include <ATen/ATen.h>

#include <map>

#include "pare/layerwise/fisher.h"

namespace pare {

std::optional<ReaderPlaces> reader_places(const Slot& slot, const std::vector<ChannelId>& channels) {
  if (channels.empty()) return {};
  std::map<int64_t, size_t> index;
  for (size_t i = 0; i < channels.size(); ++i) index[static_cast<int64_t>(channels[i])] = i;
  ReaderPlaces places{.channels = std::vector<std::vector<int64_t>>(channels.size())};
  for (size_t p = 0; p < slot.ids.size(); ++p) {
    const auto found = index.find(slot.ids[p]);
    (found == index.end() ? places.others : places.channels[found->second]).push_back(static_cast<int64_t>(p));
  }
  for (const auto& own : places.channels)
    if (own.size() != places.channels[0].size() || own.empty()) return {};
  return places;
}

at::Tensor rows_at(const std::vector<int64_t>& places, int64_t kernel) {
  const at::Tensor first = at::tensor(places, at::kLong).unsqueeze(1) * kernel;
  return (first + at::arange(kernel)).reshape({-1});
}

at::Tensor kept_rows(const Slot& slot, const std::set<ChannelId>& removed, int64_t kernel) {
  std::vector<int64_t> places;
  for (size_t p = 0; p < slot.ids.size(); ++p)
    if (slot.ids[p] == kUnlabelled || !removed.contains(ChannelId{slot.ids[p]}))
      places.push_back(static_cast<int64_t>(p));
  return rows_at(places, kernel);
}

EliminationReader elimination_reader(const at::Tensor& covariance, const at::Tensor& weight, const ReaderPlaces& places,
                                     int64_t kernel) {
  std::vector<int64_t> order;
  for (const auto& own : places.channels) order.insert(order.end(), own.begin(), own.end());
  order.insert(order.end(), places.others.begin(), places.others.end());
  const at::Tensor rows = rows_at(order, kernel);
  return {covariance.index_select(0, rows).index_select(1, rows), weight.index_select(1, rows),
          static_cast<int64_t>(places.channels[0].size()) * kernel};
}

at::Tensor weighed(const at::Tensor& weight, const at::Tensor& F, int64_t g) {
  if (!F.defined()) return weight;
  const int64_t outputs = weight.size(0);
  const at::Tensor own = F.narrow(0, g * outputs, outputs).narrow(1, g * outputs, outputs);
  return at::mm(fisher_root(own), weight.flatten(1)).reshape(weight.sizes());
}

const Slot* weight_slot(const ChannelMap& map, const ChannelGroup& group, size_t node) {
  for (const size_t s : group.consumers)
    if (map.slots[s].node == node && map.slots[s].input == 1) return &map.slots[s];
  return nullptr;
}

std::vector<ChannelId> removable(const ChannelMap& map, const ChannelGroup& group) {
  std::vector<ChannelId> channels;
  for (const ChannelId id : group.channels)
    if (!map.sets.frozen(static_cast<int64_t>(id))) channels.push_back(id);
  return channels;
}

}  // namespace pare
