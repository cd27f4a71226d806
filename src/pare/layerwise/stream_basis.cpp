#include "pare/layerwise/stream_basis.h"

#include <ATen/ATen.h>

#include "pare/layerwise/pieces.h"
#include "pare/layerwise/value_moments.h"

namespace pare {

namespace {

constexpr int64_t kRowsOfSample = 64;  // at most, of one norm

// The stream's channels in rows, in the order of the basis, as a norm sees them.
at::Tensor rows_of(const at::Tensor& x, const at::Tensor& ids, const Stream& stream) {
  const at::Tensor flat = ids.flatten().contiguous();
  const std::vector<int64_t> listed(flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel());
  at::Tensor n = x.to(at::kDouble);
  if (stream.centred) n = n - n.mean(-1, /*keepdim=*/true);
  n = n * at::rsqrt(n.square().mean(-1, /*keepdim=*/true) + 1e-12);
  n = n.reshape({-1, n.size(-1)});
  const int64_t stride = std::max<int64_t>(1, n.size(0) / (kRowsOfSample * x.size(0)));
  n = at::slice(n, 0, 0, n.size(0), stride);
  std::vector<at::Tensor> rows;
  for (const auto& places : places_of(listed, stream.ids))
    rows.push_back(n.index_select(1, at::tensor(places, at::kLong)));
  return at::cat(rows);
}

}  // namespace

std::vector<StreamBasis> stream_bases(const Graph& graph, const Streams& streams, const Samples& samples,
                                      Observer& observer) {
  std::vector<StreamBasis> bases(streams.all.size());
  std::vector<size_t> wanted;
  std::set<std::string> values;
  for (size_t i = 0; i < streams.all.size(); ++i) {
    if (!streams.all[i].reason.empty()) continue;
    wanted.push_back(i);
    for (const size_t n : streams.all[i].norms) values.insert(graph.nodes[n].inputs[0]);
  }
  if (wanted.empty()) return bases;
  const auto rows = [&](const TensorMap& tapped, int64_t /*first*/) {
    std::vector<at::Tensor> all;
    for (const size_t i : wanted) {
      std::vector<at::Tensor> parts;
      for (const size_t n : streams.all[i].norms) {
        const std::string& value = graph.nodes[n].inputs[0];
        parts.push_back(rows_of(tapped.at(value), streams.map.values.at(value), streams.all[i]));
      }
      all.push_back(at::cat(parts));
    }
    return all;
  };
  const auto moments = value_moments(graph, values, samples, piece_for(samples, 2), rows, observer);
  for (size_t w = 0; w < wanted.size(); ++w) {
    const RowMoments& own = moments[w];
    const at::Tensor energy = own.covariance_xx() + at::outer(own.mean_x, own.mean_x);
    const auto [parts, vectors] = at::linalg_eigh(energy);
    bases[wanted[w]] = {vectors.flip(1).contiguous(), (parts / parts.sum()).flip(0).contiguous()};
  }
  return bases;
}

}  // namespace pare
