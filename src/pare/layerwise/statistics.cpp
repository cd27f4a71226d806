#include "pare/layerwise/statistics.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <set>

#include "pare/data/in_order.h"
#include "pare/layerwise/linear_rows.h"
#include "pare/layerwise/pieces.h"
#include "pare/layerwise/pooled_source.h"
#include "pare/run.h"

namespace pare {

namespace {

struct MeasuredReader {
  LinearLayer layer;
  bool patches = true;
  std::string value;  // what its rows are made of
  bool pooled = false;
};

std::vector<MeasuredReader> readers_of(const Graph& graph, const ChannelMap& map, int64_t largest) {
  std::vector<MeasuredReader> readers;
  std::set<size_t> seen;
  const Usage usage = usage_of(graph);
  for (const auto& group : map.groups) {
    if (!group.prunable()) continue;
    for (const size_t s : group.consumers) {
      const Slot& slot = map.slots[s];
      const auto layer = layer_of(graph, slot.node);
      if (!layer || slot.input != 1 || !has_rows(graph, *layer) || !seen.insert(slot.node).second) continue;
      const at::Tensor weight = weight_by_group(graph, *layer);
      MeasuredReader reader{.layer = *layer, .value = graph.nodes[slot.node].inputs[0]};
      reader.patches = weight.size(2) * weight.size(3) <= largest;
      const auto pool = pool_before(graph, usage, slot.node);
      const auto type = pool ? map.shapes.types.find(graph.nodes[*pool].inputs[0]) : map.shapes.types.end();
      if (type != map.shapes.types.end() && type->second.rank() > 2 && type->second.dims[1] == weight.size(2)) {
        reader.value = graph.nodes[*pool].inputs[0];
        reader.pooled = true;
      }
      readers.push_back(reader);
    }
  }
  return readers;
}

// Rows [groups, n, …] of what the reader sees of a piece.
at::Tensor rows_of_reader(const Graph& graph, const MeasuredReader& reader, const at::Tensor& x, const at::Tensor& y,
                          int64_t first, const StatisticsOptions& options) {
  const LinearLayer everywhere{.node = reader.layer.node,
                               .groups = reader.layer.groups,
                               .value_axis = reader.pooled ? 1 : reader.layer.value_axis};
  const bool whole = reader.patches && !reader.pooled;
  const at::Tensor& seen = whole ? y : x;
  const at::Tensor places = sampled_places(places_of(whole ? reader.layer : everywhere, seen), options.places, first,
                                           x.size(0), options.seed);
  return whole ? input_rows(graph, reader.layer, x, places) : output_rows(everywhere, x, places);
}

}  // namespace

std::map<size_t, ReaderStatistics> reader_statistics(const Graph& graph, const ChannelMap& map, const Samples& samples,
                                                     const StatisticsOptions& options, Observer& observer) {
  const std::vector<MeasuredReader> readers = readers_of(graph, map, options.largest);
  const Program program(graph);
  RunOptions run;
  std::set<std::string> taps;
  for (const auto& reader : readers) {
    taps.insert(reader.value);
    taps.insert(graph.nodes[reader.layer.node].outputs[0]);
  }
  run.taps.assign(taps.begin(), taps.end());
  using Part = std::vector<std::vector<RowMoments>>;
  Part sums(readers.size());
  int64_t done = 0;
  const Pieces pieces = pieces_of(graph, samples, options.piece);
  in_order<Part>(
      pieces.count(),
      [&](size_t p) {
        const at::NoGradGuard no_grad;
        const RunResult result = program.run(pieces.inputs(p), run);
        Part part;
        for (const auto& reader : readers) {
          const at::Tensor rows =
              rows_of_reader(graph, reader, result.tapped.at(reader.value),
                             result.tapped.at(graph.nodes[reader.layer.node].outputs[0]), pieces.begin(p), options);
          auto& groups = part.emplace_back();
          const int64_t images = pieces.end(p) - pieces.begin(p), real = rows.size(1) / images * pieces.real_in(p);
          for (int64_t g = 0; g < rows.size(0); ++g) groups.push_back(row_moments(rows[g].narrow(0, 0, real)));
        }
        return part;
      },
      [&](const Part& part) {
        for (size_t r = 0; r < part.size(); ++r) {
          sums[r].resize(part[r].size());
          for (size_t g = 0; g < part[r].size(); ++g) sums[r][g] = joined(sums[r][g], part[r][g]);
        }
        done = std::min(done + pieces.piece, samples.size);
        observer.step("reading layers", done, samples.size);
      });
  std::map<size_t, ReaderStatistics> statistics;
  for (size_t r = 0; r < readers.size(); ++r) {
    for (auto& moments : sums[r]) moments = over_ranks(moments, observer.ranks());
    statistics[readers[r].layer.node] = {readers[r].layer, readers[r].patches, std::move(sums[r])};
  }
  return statistics;
}

}  // namespace pare
