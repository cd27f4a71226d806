#include "pare/prune/subset.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "pare/analysis/layers.h"
#include "pare/calibrate/moments.h"
#include "pare/layerwise/pivots.h"
#include "pare/layerwise/value_moments.h"
#include "pare/prune/filters.h"

namespace pare {

namespace {

constexpr int64_t kPiece = 8;           // samples run at once by a thread
constexpr double kNothingLeft = 1e-12;  // below it an error is rounding

// E = C − C_:K C_KK⁻¹ C_K: of one reader, and E Q E beside it, as channels are kept.
class Remainder {
 public:
  explicit Remainder(const ReaderMoments& reader)
      : pair_(reader.covariance.clone(), at::mm(reader.covariance, at::mm(reader.gram, reader.covariance)),
              reader.covariance.size(0)),
        smallest_(1e-9 * std::max(reader.covariance.diagonal().max().item<double>(), 1e-300)),
        error_((reader.gram * reader.covariance).sum().item<double>()) {}

  double error() const { return error_; }  // tr(Q C)

  // (E Q E)_kk / E_kk; a channel that is a combination of kept ones gains nothing.
  at::Tensor gains() const {
    const at::Tensor left = pair_.diagonal_E().flatten(), seen = pair_.diagonal_A().flatten();
    return at::where(left > smallest_, seen.clamp_min(0) / left, at::zeros_like(left));
  }

  void keep(int64_t k) {
    if (pair_.diagonal_E()[k].item<double>() > smallest_) pair_.take(k);
  }

 private:
  PivotedPair pair_;
  double smallest_;
  double error_;
};

struct Kept {
  std::vector<int64_t> order;
  std::vector<double> errors;  // that are left before each is kept, of the whole
};

Kept keep_greedily(const std::vector<ReaderMoments>& readers) {
  Kept kept;
  if (readers.empty()) return kept;
  std::vector<Remainder> remainders(readers.begin(), readers.end());
  double whole = 0;
  for (const auto& remainder : remainders) whole += remainder.error();
  const int64_t n = readers[0].covariance.size(0);
  std::set<int64_t> left;
  for (int64_t i = 0; i < n; ++i) left.insert(i);
  double error = 1;
  while (!left.empty()) {
    at::Tensor gain = at::zeros({n}, at::kDouble);
    for (const auto& remainder : remainders) gain += remainder.gains();
    const double* gains = gain.data_ptr<double>();
    const int64_t best =
        *std::max_element(left.begin(), left.end(), [&](int64_t a, int64_t b) { return gains[a] < gains[b]; });
    kept.order.push_back(best);
    kept.errors.push_back(whole > 0 && error > kNothingLeft ? error : 0);
    error -= whole > 0 ? gains[best] / whole : 0;
    left.erase(best);
    for (auto& remainder : remainders) remainder.keep(best);
  }
  return kept;
}

}  // namespace

std::vector<int64_t> greedy_order(const std::vector<ReaderMoments>& readers) { return keep_greedily(readers).order; }

namespace {

// A layer that reads a group.
struct Reader {
  size_t group = 0;
  const Slot* slot = nullptr;
  std::string value;                // what it reads
  int64_t axis = 1;                 // of its channels
  std::vector<at::Tensor> columns;  // int64 [channels]: their first places, their second ones …; past the end: none
};

// The ids are those of the value, since a grouped layer's weight names only its first group.
std::vector<at::Tensor> columns_of(const ChannelGroup& group, const at::Tensor& value_ids) {
  const at::Tensor ids = value_ids.reshape({-1}).contiguous();
  std::map<int64_t, std::vector<int64_t>> places;
  for (int64_t p = 0; p < ids.numel(); ++p) places[ids.data_ptr<int64_t>()[p]].push_back(p);
  size_t most = 0;
  for (const ChannelId id : group.channels) most = std::max(most, places[static_cast<int64_t>(id)].size());
  std::vector<at::Tensor> columns;
  for (size_t j = 0; j < most; ++j) {
    std::vector<int64_t> index;
    for (const ChannelId id : group.channels) {
      const auto& list = places[static_cast<int64_t>(id)];
      index.push_back(j < list.size() ? list[j] : ids.numel());
    }
    columns.push_back(at::tensor(index, at::kLong));
  }
  return columns;
}

std::vector<Reader> readers_of(const Graph& graph, const ChannelMap& map) {
  std::vector<Reader> readers;
  for (size_t g = 0; g < map.groups.size(); ++g) {
    if (!map.groups[g].prunable()) continue;
    for (const size_t s : map.groups[g].consumers) {
      const Slot& slot = map.slots[s];
      const auto layer = layer_of(graph, slot.node);
      if (!layer || slot.input != 1) continue;
      const std::string& value = graph.nodes[slot.node].inputs[0];
      const auto columns = columns_of(map.groups[g], map.values.at(value));
      if (!columns.empty()) readers.push_back({g, &slot, value, layer->value_axis, columns});
    }
  }
  return readers;
}

// Rows with one column for each channel of the group; a channel that lies in several places gives several rows.
at::Tensor channel_rows(const Reader& reader, const at::Tensor& x) {
  // In double: where channels outnumber samples, what is left of a channel must not be rounding.
  const at::Tensor rows = rows_of(x.to(at::kDouble), reader.axis < 0 ? reader.axis + x.dim() : reader.axis);
  const at::Tensor padded = at::cat({rows, at::zeros({rows.size(0), 1}, rows.options())}, 1);
  std::vector<at::Tensor> parts;
  for (const at::Tensor& columns : reader.columns) parts.push_back(padded.index_select(1, columns));
  return at::cat(parts);
}

}  // namespace

std::map<size_t, std::vector<ReaderMoments>> reader_moments(const Graph& graph, const ChannelMap& map,
                                                            const Samples& samples, Observer& observer) {
  const std::vector<Reader> readers = readers_of(graph, map);
  std::set<std::string> values;
  for (const auto& reader : readers) values.insert(reader.value);
  const auto rows = [&](const TensorMap& tapped, int64_t) {
    std::vector<at::Tensor> all;
    for (const auto& reader : readers) all.push_back(channel_rows(reader, tapped.at(reader.value)));
    return all;
  };
  const auto moments = value_moments(graph, values, samples, kPiece, rows, observer);
  std::map<size_t, std::vector<ReaderMoments>> all;
  for (size_t r = 0; r < moments.size(); ++r) {
    const at::Tensor weights = rows_by_channel(graph, map.groups[readers[r].group], *readers[r].slot);
    all[readers[r].group].push_back({moments[r].covariance_xx(), at::mm(weights, weights.t())});
  }
  return all;
}

at::Tensor subset_importance(const std::vector<ReaderMoments>& readers) {
  const Kept kept = keep_greedily(readers);
  at::Tensor importance = at::zeros({static_cast<int64_t>(kept.order.size())}, at::kDouble);
  for (size_t i = 0; i < kept.order.size(); ++i) importance[kept.order[i]] = kept.errors[i];
  return importance;
}

}  // namespace pare
