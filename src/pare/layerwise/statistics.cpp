#include "pare/layerwise/statistics.h"

#include <ATen/ATen.h>

#include <set>

#include "pare/layerwise/linear_rows.h"
#include "pare/layerwise/moments_memory.h"
#include "pare/layerwise/pieces.h"
#include "pare/layerwise/pooled_source.h"
#include "pare/layerwise/value_moments.h"

namespace pare {

namespace {

struct MeasuredReader {
  LinearLayer layer;
  bool patches = true;
  std::string value;  // what its rows are made of
  bool pooled = false;
  int64_t rows = 0;  // of its moments, for each of its groups
};

std::vector<MeasuredReader> readers_of(const Graph& graph, const ChannelMap& map, const StatisticsOptions& options) {
  std::vector<MeasuredReader> readers;
  std::set<size_t> seen;
  const Usage usage = usage_of(graph);
  for (size_t g = 0; g < map.groups.size(); ++g) {
    if (!map.groups[g].prunable() || (options.groups && !options.groups->contains(g))) continue;
    for (const size_t s : map.groups[g].consumers) {
      const Slot& slot = map.slots[s];
      const auto layer = layer_of(graph, slot.node);
      if (!layer || slot.input != 1 || !has_rows(graph, *layer) || !seen.insert(slot.node).second) continue;
      const Shape weight = weight_dims(graph, *layer);
      MeasuredReader reader{.layer = *layer, .value = graph.nodes[slot.node].inputs[0]};
      reader.patches = weight[2] * weight[3] <= options.largest;
      reader.rows = reader.patches ? weight[2] * weight[3] : weight[2];
      const auto pool = pool_before(graph, usage, slot.node);
      const auto type = pool ? map.shapes.types.find(graph.nodes[*pool].inputs[0]) : map.shapes.types.end();
      if (type != map.shapes.types.end() && type->second.rank() > 2 && type->second.dims[1] == weight[2]) {
        reader.value = graph.nodes[*pool].inputs[0];
        reader.pooled = true;
      }
      readers.push_back(reader);
    }
  }
  return readers;
}

// Rows [groups, n, …] of what the reader sees of a piece.
at::Tensor rows_of_reader(const Graph& graph, const MeasuredReader& reader, const TensorMap& values, int64_t first,
                          const StatisticsOptions& options) {
  const LinearLayer everywhere{.node = reader.layer.node,
                               .groups = reader.layer.groups,
                               .value_axis = reader.pooled ? 1 : reader.layer.value_axis};
  const bool whole = reader.patches && !reader.pooled;
  const at::Tensor& x = values.at(reader.value);
  const at::Tensor& seen = whole ? values.at(graph.nodes[reader.layer.node].outputs[0]) : x;
  const at::Tensor places = sampled_places(places_of(whole ? reader.layer : everywhere, seen), options.places, first,
                                           x.size(0), options.seed);
  return whole ? input_rows(graph, reader.layer, x, places) : output_rows(everywhere, x, places);
}

}  // namespace

int64_t statistics_bytes(const Graph& graph, const ChannelMap& map, const StatisticsOptions& options) {
  int64_t bytes = 0;
  for (const auto& reader : readers_of(graph, map, options))
    bytes += input_moment_bytes(reader.layer.groups, reader.rows);
  return bytes;
}

std::map<size_t, ReaderStatistics> reader_statistics(const Graph& graph, const ChannelMap& map, const Samples& samples,
                                                     const StatisticsOptions& options, Observer& observer) {
  const std::vector<MeasuredReader> readers = readers_of(graph, map, options);
  std::set<std::string> read;
  for (const auto& reader : readers) {
    read.insert(reader.value);
    read.insert(graph.nodes[reader.layer.node].outputs[0]);
  }
  const auto rows = [&](const TensorMap& values, int64_t first) {
    std::vector<at::Tensor> all;
    for (const auto& reader : readers)
      for (const at::Tensor& own : rows_of_reader(graph, reader, values, first, options).unbind(0)) all.push_back(own);
    return all;
  };
  std::vector<RowMoments> sums =
      value_moments(graph, read, samples, options.piece > 0 ? options.piece : piece_for(samples, 8), rows, observer);
  std::map<size_t, ReaderStatistics> statistics;
  auto next = sums.begin();
  for (const auto& reader : readers) {
    const auto groups = static_cast<std::ptrdiff_t>(reader.layer.groups);
    statistics[reader.layer.node] = {reader.layer, reader.patches, {next, next + groups}};
    next += groups;
  }
  return statistics;
}

}  // namespace pare
