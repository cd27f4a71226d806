// Which rows of a layer's moments belong to which channels of a group that the layer reads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/layerwise/eliminate.h"
#include "pare/layerwise/row_moments.h"

namespace pare {

// Places along the input axis of a reader: each channel has the same number of them; the rest belong to others.
struct ReaderPlaces {
  std::vector<std::vector<int64_t>> channels;
  std::vector<int64_t> others;
};
// Nothing when channels lie in different numbers of places, or in none.
std::optional<ReaderPlaces> reader_places(const Slot& slot, const std::vector<ChannelId>& channels);

// Rows of places, `kernel` for each: int64 [n].
at::Tensor rows_at(const std::vector<int64_t>& places, int64_t kernel);
// Those of the places whose channel stays.
at::Tensor kept_rows(const Slot& slot, const std::set<ChannelId>& removed, int64_t kernel);

// One group of a layer as elimination sees it: rows of the channels first, in their order.
EliminationReader elimination_reader(const RowMoments& moments, const at::Tensor& weight, const ReaderPlaces& places,
                                     int64_t kernel);

// Q W [outputs, …]: the outputs of group g of a layer, weighed by their own part of its Fisher matrix. `roots` are
// those of layers (layerwise/fisher.h); one that they do not name counts its outputs alike.
at::Tensor weighed(const at::Tensor& weight, const std::map<size_t, at::Tensor>& roots, size_t layer, int64_t g);

// The slot in which a node reads the group's channels with its weight.
const Slot* weight_slot(const ChannelMap& map, const ChannelGroup& group, size_t node);

// The channels of a group that may go.
std::vector<ChannelId> removable(const ChannelMap& map, const ChannelGroup& group);

}  // namespace pare
