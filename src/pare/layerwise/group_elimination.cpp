#include "pare/layerwise/group_elimination.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "pare/calibrate/ridge.h"
#include "pare/layerwise/eliminate.h"
#include "pare/layerwise/fisher.h"
#include "pare/layerwise/linear_rows.h"

namespace pare {

namespace {

at::Tensor list(const std::vector<int64_t>& v) { return at::tensor(v, at::kLong); }

// Where the channels lie along the input axis of a reader: the same number of places each, and the places of others.
struct Places {
  std::vector<std::vector<int64_t>> channels;
  std::vector<int64_t> others;
};

// Nothing when channels lie in different numbers of places.
std::optional<Places> places_in(const Slot& slot, const std::vector<ChannelId>& channels) {
  std::map<int64_t, size_t> index;
  for (size_t i = 0; i < channels.size(); ++i) index[static_cast<int64_t>(channels[i])] = i;
  Places places{.channels = std::vector<std::vector<int64_t>>(channels.size())};
  for (size_t p = 0; p < slot.ids.size(); ++p) {
    const auto found = index.find(slot.ids[p]);
    (found == index.end() ? places.others : places.channels[found->second]).push_back(static_cast<int64_t>(p));
  }
  for (const auto& own : places.channels)
    if (own.size() != places.channels[0].size() || own.empty()) return {};
  return places;
}

// Rows of the moments: each place has `kernel` of them.
std::vector<int64_t> rows_at(const std::vector<int64_t>& places, int64_t kernel) {
  std::vector<int64_t> rows;
  for (const int64_t place : places)
    for (int64_t k = 0; k < kernel; ++k) rows.push_back(place * kernel + k);
  return rows;
}

// The weight of one group of a layer as the statistics have its rows: [q, rows].
at::Tensor weight_rows(const at::Tensor& weight, bool patches) {
  return patches ? weight.flatten(1) : weight.transpose(1, 2).reshape({-1, weight.size(1)});
}

// Q W: outputs weighed, those of a layer's group g by their own part of F.
at::Tensor weighed(const at::Tensor& weight, const at::Tensor& F, int64_t g) {
  if (!F.defined()) return weight;
  const int64_t outputs = weight.size(0);
  const at::Tensor own = F.narrow(0, g * outputs, outputs).narrow(1, g * outputs, outputs);
  return at::mm(fisher_root(own), weight.flatten(1)).reshape(weight.sizes());
}

const Slot* weight_slot(const ChannelMap& map, size_t slot) {
  return map.slots[slot].input == 1 ? &map.slots[slot] : nullptr;
}

}  // namespace

GroupElimination eliminate_group(const Graph& graph, const ChannelMap& map, size_t index,
                                 const std::map<size_t, ReaderStatistics>& statistics,
                                 const std::map<size_t, at::Tensor>& fisher, double ridge) {
  const ChannelGroup& group = map.groups[index];
  GroupElimination result{.group = index};
  std::vector<ChannelId> channels;
  for (const ChannelId id : group.channels)
    if (!map.sets.frozen(static_cast<int64_t>(id))) channels.push_back(id);
  std::vector<EliminationReader> readers;
  for (const size_t s : group.consumers) {
    const Slot* slot = weight_slot(map, s);
    const auto found = slot != nullptr ? statistics.find(slot->node) : statistics.end();
    const auto places = found != statistics.end() ? places_in(*slot, channels) : std::nullopt;
    if (!places) {
      result.reason =
          fmt::format("{} reads its channels, and can't be solved", describe(graph.nodes[map.slots[s].node]));
      return result;
    }
    const ReaderStatistics& reader = found->second;
    const at::Tensor weight = weight_by_group(graph, reader.layer);
    const int64_t kernel = reader.patches ? weight.size(3) : 1;
    const auto F = fisher.find(slot->node);
    std::vector<int64_t> rows;
    for (const auto& own : places->channels)
      for (const int64_t row : rows_at(own, kernel)) rows.push_back(row);
    for (const int64_t row : rows_at(places->others, kernel)) rows.push_back(row);
    for (int64_t g = 0; g < weight.size(0); ++g) {
      const at::Tensor W =
          weight_rows(weighed(weight[g], F == fisher.end() ? at::Tensor() : F->second, g), reader.patches);
      const at::Tensor C = reader.groups[static_cast<size_t>(g)].covariance_xx();
      readers.push_back({C.index_select(0, list(rows)).index_select(1, list(rows)), W.index_select(1, list(rows)),
                         static_cast<int64_t>(places->channels[0].size()) * kernel});
    }
  }
  if (readers.empty()) {
    result.reason = "no layer reads its channels";
    return result;
  }
  Elimination elimination = eliminate(readers, static_cast<int64_t>(channels.size()), ridge);
  for (const int64_t i : elimination.order) result.order.push_back(channels[static_cast<size_t>(i)]);
  result.error = std::move(elimination.error);
  return result;
}

std::map<size_t, ReaderSolution> solve_readers(const Graph& graph, const ChannelMap& map, size_t index,
                                               const std::set<ChannelId>& removed,
                                               const std::map<size_t, ReaderStatistics>& statistics, double ridge) {
  std::map<size_t, ReaderSolution> solutions;
  for (const size_t s : map.groups[index].consumers) {
    const Slot* slot = weight_slot(map, s);
    const auto found = slot != nullptr ? statistics.find(slot->node) : statistics.end();
    if (found == statistics.end()) continue;
    const ReaderStatistics& reader = found->second;
    const at::Tensor weight = weight_by_group(graph, reader.layer);
    const int64_t kernel = reader.patches ? weight.size(3) : 1;
    std::vector<int64_t> places;
    for (size_t p = 0; p < slot->ids.size(); ++p)
      if (slot->ids[p] == kUnlabelled || !removed.contains(ChannelId{slot->ids[p]}))
        places.push_back(static_cast<int64_t>(p));
    const at::Tensor kept = list(rows_at(places, kernel));
    std::vector<at::Tensor> weights, offsets;
    for (int64_t g = 0; g < weight.size(0); ++g) {
      const RowMoments& moments = reader.groups[static_cast<size_t>(g)];
      const at::Tensor W = weight_rows(weight[g], reader.patches);
      const at::Tensor C = moments.covariance_xx().index_select(0, kept);
      const at::Tensor solved =
          ridge_towards(C.index_select(1, kept), at::mm(C, W.t()), ridge, W.index_select(1, kept));
      const at::Tensor fresh = at::zeros_like(W).index_copy(1, kept, solved);
      const at::Tensor change = at::mv(W - fresh, moments.mean_x);
      const int64_t outputs = weight.size(1);
      if (reader.patches) {
        weights.push_back(fresh.reshape(weight[g].sizes()));
        offsets.push_back(change);
      } else {
        weights.push_back(fresh.reshape({outputs, weight.size(3), weight.size(2)}).transpose(1, 2));
        offsets.push_back(change.reshape({outputs, -1}).sum(1));
      }
    }
    solutions[slot->node] = {at::stack(weights), at::cat(offsets)};
  }
  return solutions;
}

}  // namespace pare
