// What the layers of a network read, as moments: the dense statistics that elimination starts from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/analysis/layers.h"
#include "pare/graph.h"
#include "pare/layerwise/row_moments.h"
#include "pare/observer.h"
#include "pare/samples/samples.h"

namespace pare {

struct StatisticsOptions {
  int64_t piece = 0;                       // samples run at once by a thread; 0: as many as suit their size
  int64_t places = 196;                    // looked at in an image, at most
  int64_t largest = 2304;                  // rows of a patch up to which it is looked at whole; beyond, channels alone
  uint64_t seed = 0;                       // of the places
  std::optional<std::set<size_t>> groups;  // whose readers are looked at; all that may be cut
};

// The rows of one layer's input, by group of the layer.
struct ReaderStatistics {
  LinearLayer layer;
  bool patches = true;             // rows are patches [channels·kernel]; else channels, every place of a patch alike
  std::vector<RowMoments> groups;  // of the rows alone
};

// Bytes of the statistics of these groups.
int64_t statistics_bytes(const Graph& graph, const ChannelMap& map, const StatisticsOptions& options);

// Of every layer that reads channels of these groups, by its node.
std::map<size_t, ReaderStatistics> reader_statistics(const Graph& graph, const ChannelMap& map, const Samples& samples,
                                                     const StatisticsOptions& options, Observer& observer);

}  // namespace pare
