#include "pare/prune/subset.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "pare/analysis/layers.h"
#include "pare/calibrate/batches.h"
#include "pare/calibrate/moments.h"
#include "pare/prune/filters.h"
#include "pare/run.h"

namespace pare {

namespace {

constexpr int64_t kAtOnce = 64;         // updates that are applied together, as a matrix product
constexpr double kNothingLeft = 1e-12;  // below it an error is rounding

// E = C − C_:K C_KK⁻¹ C_K: of one reader and P = E Q E, as channels are kept. With e = E_:k, p = E_kk, v = P_:k
//   E' = E − u uᵀ,   P' = P − u wᵀ − w uᵀ,   u = e/√p,   w = v/√p − v_k/(2p) u
// Only the diagonals follow every step; the matrices lag behind by a few u and w.
class Remainder {
 public:
  explicit Remainder(const ReaderMoments& reader)
      : E_(reader.covariance.clone()),
        P_(at::mm(E_, at::mm(reader.gram, E_))),
        e_(E_.diagonal().clone()),
        p_(P_.diagonal().clone()),
        u_(at::zeros({kAtOnce, E_.size(0)}, at::kDouble)),
        w_(at::zeros_like(u_)),
        smallest_(1e-9 * std::max(e_.max().item<double>(), 1e-300)),
        error_((reader.gram * E_).sum().item<double>()) {}

  double error() const { return error_; }  // tr(Q C)

  // (E Q E)_kk / E_kk; a channel that is a combination of kept ones gains nothing.
  at::Tensor gains() const { return at::where(e_ > smallest_, p_.clamp_min(0) / e_, at::zeros_like(e_)); }

  void keep(int64_t k) {
    const double pivot = e_[k].item<double>();
    if (!(pivot > smallest_)) return;
    const at::Tensor us = u_.narrow(0, 0, lag_).t(), ws = w_.narrow(0, 0, lag_).t();
    const at::Tensor u = (E_.select(1, k) - at::mv(us, us[k])) / std::sqrt(pivot);
    const at::Tensor v = P_.select(1, k) - at::mv(us, ws[k]) - at::mv(ws, us[k]);
    const at::Tensor w = v / std::sqrt(pivot) - u * (v[k].item<double>() / (2 * pivot));
    e_ = e_ - u.square();
    p_ = p_ - 2 * u * w;
    u_[lag_].copy_(u);
    w_[lag_].copy_(w);
    if (++lag_ == kAtOnce) catch_up();
  }

 private:
  void catch_up() {
    E_.addmm_(u_.t(), u_, 1, -1);
    P_.addmm_(u_.t(), w_, 1, -1).addmm_(w_.t(), u_, 1, -1);
    lag_ = 0;
  }

  at::Tensor E_, P_;
  at::Tensor e_, p_;  // their diagonals
  at::Tensor u_, w_;  // [kAtOnce, n]
  double smallest_;
  double error_;
  int64_t lag_ = 0;
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
  for (const auto& part : in_batches(inputs, images_at_once(graph))) {
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

at::Tensor subset_importance(const std::vector<ReaderMoments>& readers) {
  const Kept kept = keep_greedily(readers);
  at::Tensor importance = at::zeros({static_cast<int64_t>(kept.order.size())}, at::kDouble);
  for (size_t i = 0; i < kept.order.size(); ++i) importance[kept.order[i]] = kept.errors[i];
  return importance;
}

}  // namespace pare
