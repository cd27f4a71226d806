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

// The permutation of most gain, inside the blocks as they are matched.
at::Tensor best_permutation(const Network& source, const Network& target, size_t l, const at::Tensor& gain,
                            const BlockMaps& blocks) {
  const auto solve = [](const at::Tensor& G) {
    const Assignment best = solve_assignment(-G);
    std::vector<int64_t> from(best.column.size());
    for (size_t i = 0; i < from.size(); ++i) from[static_cast<size_t>(best.column[i])] = static_cast<int64_t>(i);
    return matching_map(from, G.size(0)).plan;
  };
  const ChannelClass& own = source.classes[l];
  if (own.kind < 0) return solve(gain);
  return plan_in_blocks(own, target.classes[l], blocks.at(own.kind), [&](const at::Tensor& from, const at::Tensor& to) {
    return solve(gain.index_select(0, from).index_select(1, to).contiguous());
  });
}

// Where widths differ: the transport of least cost.
at::Tensor best_transport(const Network& source, const Network& target, size_t l, const at::Tensor& D,
                          const BlockMaps& blocks) {
  const ChannelClass& own = source.classes[l];
  if (own.kind < 0) return solve_transport(D).plan;
  return plan_in_blocks(own, target.classes[l], blocks.at(own.kind), [&](const at::Tensor& from, const at::Tensor& to) {
    return solve_transport(D.index_select(0, from).index_select(1, to).contiguous()).plan;
  });
}

// One step. False when the layer stays as it is.
bool improve_class(const Network& source, const Network& target, size_t l, Alignment& alignment,
                   const WeightMatchingOptions& options) {
  const PointPair points = known_weight_points(source, target, l, alignment.maps, PointSides::both);
  if (!points.defined()) return false;  // nothing but vectors reads them: the start stays
  ClassAlignment& report = alignment.classes[l];
  const at::Tensor& now = alignment.maps[l].plan;
  if (report.source != report.target) {
    const at::Tensor D = ground_cost(points.source, points.target, GroundCost::squared);
    const at::Tensor best = best_transport(source, target, l, D, alignment.blocks);
    const double before = (now * D).sum().item<double>();
    const bool changed = !at::allclose(best, now, 0, 1e-12) && (best * D).sum().item<double>() < before * (1 - 1e-9);
    if (changed) alignment.maps[l] = make_map(best, options.scaling);
    return changed;
  }
  const at::Tensor gain = at::mm(points.source, points.target.t()).to(at::kDouble);
  const at::Tensor best = best_permutation(source, target, l, gain, alignment.blocks);
  const double before = (now * gain).sum().item<double>();
  if (at::equal(best > 0, now > 0) || (best * gain).sum().item<double>() <= before + 1e-9 * std::abs(before))
    return false;
  alignment.maps[l] = make_map(best, ColumnScaling::published);
  return true;
}

// ⟨θ_B, θ_A as carried⟩ over the weights.
double agreement(const Network& source, const Network& target, const ClassMaps& maps) {
  double sum = 0;
  for (size_t u = 0; u < target.uses.size(); ++u) {
    const at::Tensor& own = target.parameter(target.uses[u]);
    if (!own.is_floating_point() || own.dim() < 2) continue;
    const at::Tensor x = carried(source.parameter(source.uses[u]), source.uses[u], target.uses[u], maps);
    sum += (x.to(at::kDouble) * own.to(at::kDouble)).sum().item<double>();
  }
  return sum;
}

// Blocks matched anew, with all that lies in them. Weights between two classes of the same blocks have no say in which
// is which; they have in whether the step is taken.
bool improve_blocks(const Network& source, const Network& target, int64_t kind, Alignment& alignment) {
  std::vector<size_t> classes;
  Alignment next = alignment;
  for (size_t l = 0; l < source.classes.size(); ++l) {
    if (source.classes[l].kind != kind || !is_free(source, target, l)) continue;
    if (source.classes[l].size != target.classes[l].size) return false;
    classes.push_back(l);
    next.maps[l] = {};
  }
  std::vector<std::pair<size_t, at::Tensor>> gains;
  std::vector<BlockCost> costs;
  for (const size_t l : classes) {
    const PointPair points = known_weight_points(source, target, l, next.maps, PointSides::both);
    if (!points.defined()) return false;
    gains.emplace_back(l, at::mm(points.source, points.target.t()).to(at::kDouble));
    costs.push_back({&source.classes[l], &target.classes[l], -gains.back().second});
  }
  next.blocks[kind] = match_blocks(costs);
  if (next.blocks[kind] == alignment.blocks.at(kind)) return false;
  for (const auto& [l, gain] : gains)
    next.maps[l] = make_map(best_permutation(source, target, l, gain, next.blocks), ColumnScaling::published);
  const double before = agreement(source, target, alignment.maps);
  if (agreement(source, target, next.maps) <= before + 1e-9 * std::abs(before)) return false;
  alignment = std::move(next);
  return true;
}

// ⟨T, D⟩ of the final maps, with D the distances of incoming and outgoing weights.
void report_costs(const Network& source, const Network& target, Alignment& alignment) {
  for (size_t l = 0; l < alignment.maps.size(); ++l) {
    if (!is_free(source, target, l)) continue;
    const PointPair points = known_weight_points(source, target, l, alignment.maps, PointSides::both);
    if (!points.defined()) continue;
    alignment.classes[l].cost =
        (alignment.maps[l].plan * ground_cost(points.source, points.target)).sum().item<double>();
    alignment.classes[l].split = mass_split(alignment.maps[l].plan);
  }
}

// All layers in random order, then all blocks. False when none changed.
bool sweep_once(const Network& source, const Network& target, Alignment& alignment, Random& random,
                const WeightMatchingOptions& options) {
  bool changed = false;
  for (const int64_t l : random_permutation(static_cast<int64_t>(source.classes.size()), random))
    if (is_free(source, target, static_cast<size_t>(l)))
      changed = improve_class(source, target, static_cast<size_t>(l), alignment, options) || changed;
  std::vector<int64_t> kinds;
  for (const auto& [kind, blocks] : alignment.blocks)
    if (blocks.size() > 1) kinds.push_back(kind);
  for (const int64_t kind : kinds) changed = improve_blocks(source, target, kind, alignment) || changed;
  return changed;
}

}  // namespace

Alignment match_weights(const Network& source, const Network& target, Alignment start,
                        const WeightMatchingOptions& options, Observer& observer) {
  Random random(mix_seed({options.seed, 0x9a7cu}));
  for (int64_t sweep = 0; sweep < options.sweeps; ++sweep) {
    observer.step("matching weights", sweep, options.sweeps);
    if (!sweep_once(source, target, start, random, options)) break;
  }
  report_costs(source, target, start);
  return start;
}

void match_many(const std::vector<Network>& networks, const Network& reference, std::vector<Alignment>& alignments,
                const WeightMatchingOptions& options, Observer& observer) {
  Random random(mix_seed({options.seed, 0x3a11u}));
  std::vector<Graph> aligned;
  for (size_t k = 0; k < networks.size(); ++k)
    aligned.push_back(carried_network(networks[k], reference, alignments[k].maps));
  for (int64_t round = 0; round < options.rounds; ++round) {
    bool changed = false;
    for (const int64_t chosen : random_permutation(static_cast<int64_t>(networks.size()), random)) {
      const auto k = static_cast<size_t>(chosen);
      observer.step("matching weights to the mean", round, options.rounds);
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
