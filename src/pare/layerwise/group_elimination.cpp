#include "pare/layerwise/group_elimination.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "pare/calibrate/ridge.h"
#include "pare/layerwise/eliminate.h"
#include "pare/layerwise/linear_rows.h"
#include "pare/layerwise/reader_rows.h"

namespace pare {

namespace {

// The weight of one group of a layer as the statistics have its rows: [q, rows].
at::Tensor weight_rows(const at::Tensor& weight, bool patches) {
  return patches ? weight.flatten(1) : weight.transpose(1, 2).reshape({-1, weight.size(1)});
}

const ReaderStatistics* statistics_of(const ChannelMap& map, size_t slot,
                                      const std::map<size_t, ReaderStatistics>& statistics) {
  const auto found = statistics.find(map.slots[slot].node);
  return map.slots[slot].input == 1 && found != statistics.end() ? &found->second : nullptr;
}

}  // namespace

GroupElimination eliminate_group(const Graph& graph, const ChannelMap& map, size_t index,
                                 const std::map<size_t, ReaderStatistics>& statistics,
                                 const std::map<size_t, at::Tensor>& fisher, double ridge) {
  const ChannelGroup& group = map.groups[index];
  GroupElimination result{.group = index};
  const std::vector<ChannelId> channels = removable(map, group);
  std::vector<EliminationReader> readers;
  for (const size_t s : group.consumers) {
    const Slot& slot = map.slots[s];
    const ReaderStatistics* reader = statistics_of(map, s, statistics);
    const auto places = reader != nullptr ? reader_places(slot, channels) : std::nullopt;
    if (!places) {
      result.reason = fmt::format("{} reads its channels, and can't be solved", describe(graph.nodes[slot.node]));
      return result;
    }
    const at::Tensor weight = weight_by_group(graph, reader->layer);
    for (int64_t g = 0; g < weight.size(0); ++g) {
      const at::Tensor W = weight_rows(weighed(weight[g], fisher, slot.node, g), reader->patches);
      readers.push_back(
          elimination_reader(reader->groups[static_cast<size_t>(g)], W, *places, reader->patches ? weight.size(3) : 1));
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
    const ReaderStatistics* found = statistics_of(map, s, statistics);
    if (found == nullptr) continue;
    const ReaderStatistics& reader = *found;
    const at::Tensor weight = weight_by_group(graph, reader.layer);
    const at::Tensor kept = kept_rows(map.slots[s], removed, reader.patches ? weight.size(3) : 1);
    std::vector<at::Tensor> weights, offsets;
    for (int64_t g = 0; g < weight.size(0); ++g) {
      const RowMoments& moments = reader.groups[static_cast<size_t>(g)];
      const at::Tensor W = weight_rows(weight[g], reader.patches);
      const at::Tensor C = moments.xx.index_select(0, kept) / static_cast<double>(moments.count);
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
    solutions[map.slots[s].node] = {at::stack(weights), at::cat(offsets)};
  }
  return solutions;
}

}  // namespace pare
