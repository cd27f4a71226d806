#include "pare/fuse/optimal_transport.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "pare/core/error.h"
#include "pare/transport/assignment.h"
#include "pare/transport/exact.h"
#include "pare/transport/sinkhorn.h"

namespace pare {

namespace {

// Mass of each neuron: the same for all, or by the norm of what it computes.
at::Tensor marginal(const at::Tensor& points, NeuronMass importance) {
  if (importance == NeuronMass::uniform) return uniform_marginal(points.size(0));
  const at::Tensor mass = points.to(at::kDouble).norm(importance == NeuronMass::l1 ? 1 : 2, 1);
  return mass.sum().item<double>() > 0 ? mass / mass.sum() : uniform_marginal(points.size(0));
}

// Every channel of the smaller side has a partner of its own.
std::vector<int64_t> hungarian_sources(const at::Tensor& D) {
  const int64_t m = D.size(0);
  const int64_t n = D.size(1);
  if (m > n) return solve_assignment(D.t().contiguous()).column;
  std::vector<int64_t> source(static_cast<size_t>(n), -1);
  const Assignment best = solve_assignment(D);
  for (int64_t i = 0; i < m; ++i) source[static_cast<size_t>(best.column[static_cast<size_t>(i)])] = i;
  return source;
}

// The closest pair first, then the closest of the rest.
std::vector<int64_t> greedy_sources(const at::Tensor& D) {
  const int64_t n = D.size(1);
  const at::Tensor order = D.flatten().argsort().contiguous();
  std::vector<int64_t> source(static_cast<size_t>(n), -1);
  std::vector<char> taken(static_cast<size_t>(D.size(0)), 0);
  for (int64_t k = 0; k < order.numel(); ++k) {
    const int64_t i = order.data_ptr<int64_t>()[k] / n;
    const int64_t j = order.data_ptr<int64_t>()[k] % n;
    if (taken[static_cast<size_t>(i)] != 0 || source[static_cast<size_t>(j)] >= 0) continue;
    taken[static_cast<size_t>(i)] = 1;
    source[static_cast<size_t>(j)] = i;
  }
  return source;
}

std::vector<int64_t> identity_sources(int64_t sources, int64_t targets) {
  std::vector<int64_t> source(static_cast<size_t>(targets), -1);
  for (int64_t i = 0; i < std::min(sources, targets); ++i) source[static_cast<size_t>(i)] = i;
  return source;
}

}  // namespace

ClassMap align_points(const PointPair& points, const TransportFusionOptions& options, ClassAlignment& report) {
  const auto scaled = [&](const at::Tensor& x) {
    const at::Tensor centred = options.centred ? x - x.mean(1, /*keepdim=*/true) : x;
    return options.unit_rows ? unit_rows(centred) : centred;
  };
  const at::Tensor D = ground_cost(scaled(points.source), scaled(points.target), options.ground);
  const auto matched = [&](const std::vector<int64_t>& source) {
    ClassMap map = matching_map(source, D.size(0));
    report.cost = (map.plan * D).sum().item<double>();
    report.split = 1 - map.plan.sum().item<double>();
    return map;
  };
  switch (options.rule) {
    case PlanRule::hungarian: return matched(hungarian_sources(D));
    case PlanRule::greedy: return matched(greedy_sources(D));
    case PlanRule::identity: return matched(identity_sources(D.size(0), D.size(1)));
    case PlanRule::exact:
    case PlanRule::sinkhorn: break;
  }
  const at::Tensor alpha = marginal(points.source, options.importance);
  const at::Tensor beta = marginal(points.target, options.importance);
  const TransportPlan best = options.rule == PlanRule::exact
                                 ? solve_transport(D, alpha, beta)
                                 : sinkhorn(D, alpha, beta, {.regularization = options.regularization});
  report.cost = best.cost;
  report.split = mass_split(best.plan);
  report.converged = best.converged;
  return make_map(best.plan, options.scaling);
}

Alignment align_by_transport(const Network& source, const Network& target, const TransportFusionOptions& options,
                             const ActivationPair& activations) {
  Alignment result;
  result.maps.resize(source.classes.size());
  for (size_t l = 0; l < source.classes.size(); ++l) {
    const int64_t n_A = source.classes[l].size;
    const int64_t n_B = l < target.classes.size() ? target.classes[l].size : 0;
    ClassAlignment report{
        .name = source.classes[l].name, .source = n_A, .target = n_B, .fixed = source.classes[l].fixed};
    if (report.fixed) {
      result.maps[l] = identity_map(n_A);
    } else if (n_A == 0 || n_B == 0) {
      result.maps[l] = make_map(at::zeros({n_A, n_B}, at::kDouble), options.scaling);
    } else {
      const PointPair points = activations.source != nullptr
                                   ? PointPair{activations.source->points(l), activations.target->points(l)}
                                   : weight_points(source, target, l, result.maps, PointSides::incoming);
      result.maps[l] = align_points(points, options, report);
    }
    result.classes.push_back(report);
  }
  return result;
}

}  // namespace pare
