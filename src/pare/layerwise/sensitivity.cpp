#include "pare/layerwise/sensitivity.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "pare/analysis/layers.h"
#include "pare/layerwise/linear_rows.h"
#include "pare/layerwise/variants.h"

namespace pare {

namespace {

// The network with one group cut: the same nodes, other weights in the readers.
struct Variant {
  size_t group = 0;  // index into the groups
  int64_t removed = 0;
  Graph graph;
};

Variant variant_of(const Graph& graph, const ChannelMap& map, size_t g, const GroupElimination& group, int64_t removed,
                   const std::map<size_t, ReaderStatistics>& statistics, double ridge) {
  const std::set<ChannelId> gone(group.order.begin(), group.order.begin() + removed);
  Variant variant{g, removed, graph};
  auto solutions = solve_readers(graph, map, group.group, gone, statistics, ridge);
  // From the last node on: an addition that is new must not move those that are still to come.
  for (auto entry = solutions.rbegin(); entry != solutions.rend(); ++entry) {
    const LinearLayer& layer = statistics.at(entry->first).layer;
    store_weight(variant.graph, layer, entry->second.weight);
    add_offset(variant.graph, layer, entry->second.offset);
  }
  return variant;
}

}  // namespace

double divergence(const at::Tensor& z, const at::Tensor& other, double temperature) {
  const at::Tensor a = z.to(at::kDouble), b = other.to(at::kDouble);
  const bool scores = a.dim() >= 2 && a.size(1) > 1 && a.numel() == a.size(0) * a.size(1);
  if (!scores) return ((a - b).square().sum() / a.square().sum().clamp_min(1e-300)).item<double>() * a.size(0);
  const at::Tensor p = at::log_softmax(a.flatten(1) / temperature, 1);
  const at::Tensor q = at::log_softmax(b.flatten(1) / temperature, 1);
  return temperature * temperature * (p.exp() * (p - q)).sum().item<double>();
}

std::vector<double> interpolated(const std::vector<double>& error, const std::vector<SensitivityPoint>& measured) {
  constexpr double kTiny = 1e-12;
  std::vector<double> result = {0};
  const auto error_at = [&](int64_t removed) { return std::max(error[static_cast<size_t>(removed) - 1], kTiny); };
  for (size_t i = 1; i <= error.size(); ++i) {
    const double e = error_at(static_cast<int64_t>(i));
    size_t next = 0;
    while (next < measured.size() && measured[next].removed < static_cast<int64_t>(i)) ++next;
    double value = 0;
    if (next == 0) {
      value = measured[0].divergence * e / error_at(measured[0].removed);
    } else if (next == measured.size()) {
      value = measured.back().divergence;
    } else {
      const double e0 = std::log(error_at(measured[next - 1].removed)), e1 = std::log(error_at(measured[next].removed));
      const double d0 = std::log(std::max(measured[next - 1].divergence, kTiny));
      const double d1 = std::log(std::max(measured[next].divergence, kTiny));
      const double t = e1 > e0 ? (std::log(e) - e0) / (e1 - e0) : 1;
      value = std::exp(d0 + t * (d1 - d0));
    }
    result.push_back(std::max(value, result.back()));  // noise must not make a narrower group look better
  }
  return result;
}

std::vector<GroupSensitivity> measure_sensitivity(const Graph& graph, const ChannelMap& map,
                                                  const std::vector<GroupElimination>& groups,
                                                  const std::map<size_t, ReaderStatistics>& statistics,
                                                  const Samples& held_out, const SensitivityOptions& options,
                                                  Observer& observer) {
  const at::NoGradGuard no_grad;
  std::vector<Variant> variants;
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto n = static_cast<int64_t>(groups[g].order.size());
    std::set<int64_t> counts;
    for (const double kept : options.kept)
      counts.insert(
          std::clamp<int64_t>(std::llround(static_cast<double>(n) * (1 - kept)), 1, std::max<int64_t>(n - 1, 1)));
    if (n > 1)
      for (const int64_t removed : counts)
        variants.push_back(variant_of(graph, map, g, groups[g], removed, statistics, options.ridge));
  }
  std::vector<Graph> graphs;
  for (const auto& variant : variants) graphs.push_back(variant.graph);
  const auto divergences =
      answer_divergences(graph, graphs, held_out, observer, "measuring groups", options.temperature);
  std::vector<GroupSensitivity> result(groups.size());
  for (size_t v = 0; v < variants.size(); ++v)
    result[variants[v].group].measured.push_back({variants[v].removed, divergences[v]});
  for (size_t g = 0; g < groups.size(); ++g) {
    result[g].group = groups[g].group;
    if (!result[g].measured.empty()) result[g].divergence = interpolated(groups[g].error, result[g].measured);
  }
  return result;
}

}  // namespace pare
