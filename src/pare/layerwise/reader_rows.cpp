#include "pare/layerwise/reader_rows.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
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

EliminationReader elimination_reader(const RowMoments& moments, const at::Tensor& weight, const ReaderPlaces& places,
                                     int64_t kernel) {
  std::vector<int64_t> order;
  for (const auto& own : places.channels) order.insert(order.end(), own.begin(), own.end());
  order.insert(order.end(), places.others.begin(), places.others.end());
  const at::Tensor rows = rows_at(order, kernel);
  const int64_t of_channel = static_cast<int64_t>(places.channels[0].size()) * kernel;
  // Sums of products as they are, which may be large; the weight makes up for their number.
  const at::Tensor W = weight / std::sqrt(static_cast<double>(std::max<int64_t>(moments.count, 1)));
  if (at::equal(rows, at::arange(weight.size(1)))) return {moments.xx, W, of_channel};
  return {moments.xx.index_select(0, rows).index_select(1, rows), W.index_select(1, rows), of_channel};
}

at::Tensor weighed(const at::Tensor& weight, const std::map<size_t, at::Tensor>& roots, size_t layer, int64_t g) {
  const auto root = roots.find(layer);
  if (root == roots.end()) return weight;
  const int64_t outputs = weight.size(0);
  return weighed_by(root->second.narrow(1, g * outputs, outputs), weight);
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
