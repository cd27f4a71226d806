#include "pare/prune/subset.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <set>

#include "pare/analysis/layers.h"
#include "pare/calibrate/moments.h"
#include "pare/exec/program.h"
#include "pare/prune/filters.h"

namespace pare {

std::vector<int64_t> greedy_order(std::vector<ReaderMoments> readers) {
  std::vector<int64_t> order;
  if (readers.empty()) return order;
  const int64_t n = readers[0].covariance.size(0);
  std::vector<double> smallest;  // below it a channel is a combination of those that are kept
  for (const auto& reader : readers)
    smallest.push_back(1e-9 * std::max(reader.covariance.diagonal().max().item<double>(), 1e-300));
  std::set<int64_t> left;
  for (int64_t i = 0; i < n; ++i) left.insert(i);
  while (!left.empty()) {
    at::Tensor gain = at::zeros({n}, at::kDouble);
    for (size_t r = 0; r < readers.size(); ++r) {
      const at::Tensor& E = readers[r].covariance;
      const at::Tensor diagonal = E.diagonal();
      const at::Tensor numerator = (E * at::mm(readers[r].gram, E)).sum(0);
      gain += at::where(diagonal > smallest[r], numerator / diagonal, at::zeros_like(diagonal));
    }
    const double* gains = gain.data_ptr<double>();
    const int64_t best =
        *std::max_element(left.begin(), left.end(), [&](int64_t a, int64_t b) { return gains[a] < gains[b]; });
    order.push_back(best);
    left.erase(best);
    for (size_t r = 0; r < readers.size(); ++r) {
      at::Tensor& E = readers[r].covariance;
      const double pivot = E[best][best].item<double>();
      if (pivot > smallest[r]) E = E - at::outer(E.select(1, best), E.select(0, best)) / pivot;
    }
  }
  return order;
}

namespace {

constexpr int64_t kImagesAtOnce = 32;

struct Reader {
  size_t group = 0;
  const Slot* slot = nullptr;
  std::string value;  // what it reads
  int64_t axis = 1;
  Moments moments;
};

std::vector<Reader> readers_of(const Graph& graph, const ChannelMap& map) {
  std::vector<Reader> readers;
  for (size_t g = 0; g < map.groups.size(); ++g) {
    if (!map.groups[g].prunable()) continue;
    for (const size_t s : map.groups[g].consumers) {
      const Slot& slot = map.slots[s];
      if (const auto layer = layer_of(graph, slot.node); layer && slot.input == 1)
        readers.push_back({g, &slot, graph.nodes[slot.node].inputs[0], layer->value_axis, {}});
    }
  }
  return readers;
}

// Rows with one column for each channel of the group; a channel that lies in several places gives several rows. The
// ids are those of the value, since a grouped layer's weight names only its first group.
at::Tensor channel_rows(const ChannelMap& map, const ChannelGroup& group, const Reader& reader, const at::Tensor& x) {
  const int64_t axis = reader.axis < 0 ? reader.axis + x.dim() : reader.axis;
  const at::Tensor ids = map.values.at(reader.value).reshape({-1}).contiguous();
  std::map<int64_t, std::vector<int64_t>> places;
  for (int64_t p = 0; p < ids.numel(); ++p) places[ids.data_ptr<int64_t>()[p]].push_back(p);
  size_t most = 0;
  for (const ChannelId id : group.channels) most = std::max(most, places[static_cast<int64_t>(id)].size());
  const at::Tensor rows = rows_of(x, axis);
  const at::Tensor padded = at::cat({rows, at::zeros({rows.size(0), 1}, rows.options())}, 1);
  std::vector<at::Tensor> parts;
  for (size_t j = 0; j < most; ++j) {
    std::vector<int64_t> index;
    for (const ChannelId id : group.channels) {
      const auto& list = places[static_cast<int64_t>(id)];
      index.push_back(j < list.size() ? list[j] : rows.size(1));
    }
    parts.push_back(padded.index_select(1, at::tensor(index, at::kLong)));
  }
  return parts.empty() ? at::Tensor() : at::cat(parts);
}

}  // namespace

std::map<size_t, std::vector<ReaderMoments>> reader_moments(const Graph& graph, const ChannelMap& map,
                                                            const std::vector<at::Tensor>& inputs,
                                                            ProcessGroup& ranks) {
  const at::NoGradGuard no_grad;
  std::vector<Reader> readers = readers_of(graph, map);
  const Program program(graph);
  RunOptions run;
  std::set<std::string> taps;
  for (const auto& reader : readers) taps.insert(reader.value);
  run.taps.assign(taps.begin(), taps.end());
  const int64_t count = inputs.at(0).size(0);
  for (int64_t begin = 0; begin < count; begin += kImagesAtOnce) {
    std::vector<at::Tensor> part;
    for (const auto& input : inputs) part.push_back(input.narrow(0, begin, std::min(kImagesAtOnce, count - begin)));
    const RunResult result = program.run(part, run);
    for (auto& reader : readers) {
      const at::Tensor rows = channel_rows(map, map.groups[reader.group], reader, result.tapped.at(reader.value));
      if (rows.defined()) reader.moments.add(rows);
    }
  }
  std::map<size_t, std::vector<ReaderMoments>> all;
  for (auto& reader : readers) {
    if (reader.moments.count() == 0) continue;
    reader.moments.sum_over(ranks);
    const at::Tensor weights = rows_by_channel(graph, map.groups[reader.group], *reader.slot);
    all[reader.group].push_back({reader.moments.covariance(), at::mm(weights, weights.t())});
  }
  return all;
}

at::Tensor subset_importance(std::vector<ReaderMoments> readers) {
  const std::vector<int64_t> order = greedy_order(std::move(readers));
  at::Tensor importance = at::zeros({static_cast<int64_t>(order.size())}, at::kDouble);
  for (size_t i = 0; i < order.size(); ++i) importance[order[i]] = static_cast<double>(order.size() - i);
  return importance;
}

}  // namespace pare
