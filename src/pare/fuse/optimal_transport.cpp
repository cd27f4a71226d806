#include "pare/fuse/optimal_transport.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "pare/error.h"
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

// What a class is matched by.
struct ClassCost {
  at::Tensor D;         // the ground cost
  at::Tensor decisive;  // the same, and where it leaves channels alike what their traces say
  at::Tensor alpha, beta;
};

// Does any channel have several that are closest?
bool leaves_ties(const at::Tensor& D) {
  const at::Tensor nearest = std::get<0>(D.min(1, /*keepdim=*/true));
  return ((D <= nearest + 1e-6 * D.max()).sum(1) > 1).any().item<bool>();
}

at::Tensor over_largest(const at::Tensor& D) {
  const double most = D.max().item<double>();
  return most > 0 ? D / most : D;
}

class TransportWalk {
 public:
  TransportWalk(const Network& source, const Network& target, const TransportFusionOptions& options,
                const ActivationPair& activations)
      : source_(source), target_(target), options_(options), activations_(activations) {
    result_.maps.resize(source.classes.size());
  }

  Alignment run(Observer& observer) {
    for (size_t l = 0; l < source_.classes.size(); ++l) {
      observer.step("aligning", static_cast<int64_t>(l), static_cast<int64_t>(source_.classes.size()));
      const ChannelClass& own = source_.classes[l];
      ClassAlignment report{
          .name = own.name, .source = own.size, .target = size_in_target(l), .fixed = own.fixed, .reason = own.reason};
      if (own.fixed)
        result_.maps[l] = identity_map(own.size);
      else if (!is_matched(l))
        result_.maps[l] = make_map(at::zeros({own.size, size_in_target(l)}, at::kDouble), options_.scaling);
      else
        result_.maps[l] = align(l, report);
      result_.classes.push_back(report);
    }
    return std::move(result_);
  }

 private:
  int64_t size_in_target(size_t l) const { return l < target_.classes.size() ? target_.classes[l].size : 0; }
  bool is_matched(size_t l) const {
    return !source_.classes[l].fixed && source_.classes[l].size > 0 && size_in_target(l) > 0;
  }

  at::Tensor scaled(const at::Tensor& x) const {
    const at::Tensor centred = options_.centred ? x - x.mean(1, /*keepdim=*/true) : x;
    return options_.unit_rows ? unit_rows(centred) : centred;
  }

  // Nothing where there is nothing to compare yet.
  std::optional<ClassCost> cost_of(size_t l) const {
    PointPair points = activations_.source != nullptr
                           ? PointPair{activations_.source->points(l), activations_.target->points(l)}
                           : known_weight_points(source_, target_, l, result_.maps, PointSides::incoming);
    ClassCost cost;
    if (points.defined()) cost.D = ground_cost(scaled(points.source), scaled(points.target), options_.ground);
    cost.decisive = cost.D;
    if (!points.defined() || leaves_ties(cost.D)) {
      const PointPair traces = trace_points(source_, target_, l);
      if (!points.defined() && !traces.defined()) return std::nullopt;
      if (traces.defined()) {
        const at::Tensor by_trace = over_largest(ground_cost(traces.source, traces.target));
        if (!points.defined()) cost.D = by_trace, points = traces;
        const double much = 1e-3 * cost.D.max().item<double>();
        cost.decisive = cost.D + (much > 0 ? much : 1) * by_trace;
      }
    }
    cost.alpha = marginal(points.source, options_.importance);
    cost.beta = marginal(points.target, options_.importance);
    return cost;
  }

  ClassMap align(size_t l, ClassAlignment& report) {
    const auto cost = cost_of(l);
    if (!cost)
      throw Error(ErrorKind::unsupported, describe(target_.graph.nodes[target_.classes[l].node]),
                  "its channels have no weights to compare");
    const ChannelClass& own = source_.classes[l];
    at::Tensor plan;
    if (own.kind < 0) {
      plan = plan_of(cost->decisive, cost->alpha, cost->beta, report);
    } else {
      if (!result_.blocks.contains(own.kind)) result_.blocks[own.kind] = blocks_of(own.kind);
      plan = plan_in_blocks(
          own, target_.classes[l], result_.blocks[own.kind], [&](const at::Tensor& from, const at::Tensor& to) {
            const at::Tensor part = cost->decisive.index_select(0, from).index_select(1, to);
            return plan_of(part, cost->alpha.index_select(0, from), cost->beta.index_select(0, to), report);
          });
    }
    report.cost = (plan * cost->D).sum().item<double>();
    const bool matching = options_.rule != PlanRule::exact && options_.rule != PlanRule::sinkhorn;
    report.split = matching ? 1 - plan.sum().item<double>() : mass_split(plan);
    return make_map(plan, matching ? ColumnScaling::published : options_.scaling);
  }

  // By all classes that share them, as far as they can be compared by now.
  BlockMap blocks_of(int64_t kind) const {
    std::vector<BlockCost> costs;
    for (size_t l = 0; l < source_.classes.size(); ++l) {
      if (!is_matched(l) || source_.classes[l].kind != kind) continue;
      if (const auto cost = cost_of(l)) costs.push_back({&source_.classes[l], &target_.classes[l], cost->decisive});
    }
    return options_.rule == PlanRule::identity ? identity_blocks(costs) : match_blocks(costs);
  }

  // Step 4.
  at::Tensor plan_of(const at::Tensor& D, const at::Tensor& alpha, const at::Tensor& beta,
                     ClassAlignment& report) const {
    switch (options_.rule) {
      case PlanRule::hungarian: return matching_map(hungarian_sources(D), D.size(0)).plan;
      case PlanRule::greedy: return matching_map(greedy_sources(D), D.size(0)).plan;
      case PlanRule::identity: return matching_map(identity_sources(D.size(0), D.size(1)), D.size(0)).plan;
      case PlanRule::exact: return solve_transport(D, alpha / alpha.sum(), beta / beta.sum()).plan;
      case PlanRule::sinkhorn: break;
    }
    const TransportPlan best =
        sinkhorn(D, alpha / alpha.sum(), beta / beta.sum(), {.regularization = options_.regularization});
    report.converged = report.converged && best.converged;
    return best.plan;
  }

  const Network& source_;
  const Network& target_;
  const TransportFusionOptions& options_;
  const ActivationPair& activations_;
  Alignment result_;
};

}  // namespace

Alignment align_by_transport(const Network& source, const Network& target, const TransportFusionOptions& options,
                             const ActivationPair& activations, Observer& observer) {
  return TransportWalk(source, target, options, activations).run(observer);
}

}  // namespace pare
