#include "pare/fuse/weight_matching.h"

#include <ATen/ATen.h>

#include "pare/data/random.h"
#include "pare/fuse/average.h"
#include "pare/transport/assignment.h"
#include "pare/transport/exact.h"

namespace pare {

namespace {

bool is_free(const Network& source, const Network& target, size_t c) {
  return c < target.classes.size() && !source.classes[c].fixed && source.classes[c].size > 0 &&
         target.classes[c].size > 0;
}

// One step. False when the layer stays as it is.
bool improve_class(const Network& source, const Network& target, size_t l, Alignment& alignment,
                   const WeightMatchingOptions& options) {
  const PointPair points = weight_points(source, target, l, alignment.maps, PointSides::both);
  ClassAlignment& report = alignment.classes[l];
  if (report.source != report.target) {
    const TransportPlan best = solve_transport(ground_cost(points.source, points.target, GroundCost::squared));
    const double before =
        (alignment.maps[l].plan * ground_cost(points.source, points.target, GroundCost::squared)).sum().item<double>();
    report.cost = best.cost;
    report.split = mass_split(best.plan);
    const bool changed = !at::allclose(best.plan, alignment.maps[l].plan, 0, 1e-12) && best.cost < before * (1 - 1e-9);
    if (changed) alignment.maps[l] = make_map(best.plan, options.scaling);
    return changed;
  }
  const at::Tensor gain = at::mm(points.source, points.target.t()).to(at::kDouble);
  const Assignment best = solve_assignment(-gain);
  std::vector<int64_t> from(best.column.size());
  for (size_t i = 0; i < from.size(); ++i) from[static_cast<size_t>(best.column[i])] = static_cast<int64_t>(i);
  ClassMap next = matching_map(from, report.source);
  const double scale = static_cast<double>(report.source);
  const double before = scale * (alignment.maps[l].plan * gain).sum().item<double>();
  report.split = 0;
  if (next.permutation == alignment.maps[l].permutation || -best.cost <= before + 1e-9 * std::abs(before)) return false;
  alignment.maps[l] = std::move(next);
  return true;
}

// ⟨T, D⟩ of the final maps, with D the distances of incoming and outgoing weights.
void report_costs(const Network& source, const Network& target, Alignment& alignment) {
  for (size_t l = 0; l < alignment.maps.size(); ++l) {
    if (!is_free(source, target, l)) continue;
    const PointPair points = weight_points(source, target, l, alignment.maps, PointSides::both);
    alignment.classes[l].cost =
        (alignment.maps[l].plan * ground_cost(points.source, points.target)).sum().item<double>();
    alignment.classes[l].split = mass_split(alignment.maps[l].plan);
  }
}

// All layers in random order. False when none changed.
bool sweep_once(const Network& source, const Network& target, Alignment& alignment, Random& random,
                const WeightMatchingOptions& options) {
  bool changed = false;
  for (const int64_t l : random_permutation(static_cast<int64_t>(source.classes.size()), random))
    if (is_free(source, target, static_cast<size_t>(l)))
      changed = improve_class(source, target, static_cast<size_t>(l), alignment, options) || changed;
  return changed;
}

}  // namespace

Alignment match_weights(const Network& source, const Network& target, Alignment start,
                        const WeightMatchingOptions& options) {
  Random random(mix_seed({options.seed, 0x9a7cu}));
  for (int64_t sweep = 0; sweep < options.sweeps; ++sweep)
    if (!sweep_once(source, target, start, random, options)) break;
  report_costs(source, target, start);
  return start;
}

void match_many(const std::vector<Network>& networks, const Network& reference, std::vector<Alignment>& alignments,
                const WeightMatchingOptions& options) {
  Random random(mix_seed({options.seed, 0x3a11u}));
  std::vector<Graph> aligned;
  for (size_t k = 0; k < networks.size(); ++k)
    aligned.push_back(carried_network(networks[k], reference, alignments[k].maps));
  for (int64_t round = 0; round < options.rounds; ++round) {
    bool changed = false;
    for (const int64_t chosen : random_permutation(static_cast<int64_t>(networks.size()), random)) {
      const auto k = static_cast<size_t>(chosen);
      std::vector<Graph> others;
      for (size_t i = 0; i < networks.size(); ++i)
        if (i != k) others.push_back(aligned[i]);
      Network mean = reference;
      mean.graph = weighted_average(others, {}, 0);
      if (!sweep_once(networks[k], mean, alignments[k], random, options)) continue;
      aligned[k] = carried_network(networks[k], reference, alignments[k].maps);
      changed = true;
    }
    if (!changed) break;
  }
  Network mean = reference;
  mean.graph = weighted_average(aligned, {}, 0);
  for (size_t k = 0; k < networks.size(); ++k) report_costs(networks[k], mean, alignments[k]);
}

}  // namespace pare
