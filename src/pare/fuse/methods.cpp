#include "pare/fuse/methods.h"

#include <algorithm>
#include <memory>

#include "pare/error.h"
#include "pare/fuse/align_to_barycentre.h"
#include "pare/fuse/weight_matching.h"

namespace pare {

namespace {

GroundCost cost_between(NeuronDistance distance) {
  switch (distance) {
    case NeuronDistance::squared: return GroundCost::squared;
    case NeuronDistance::cosine: return GroundCost::cosine;
    default: return GroundCost::euclidean;  // of rows as they are, or of unit length
  }
}

TransportFusionOptions transport_options(const FuseOptions& options, PlanRule rule) {
  TransportFusionOptions result{.rule = rule};
  result.centred = options.ground == NeuronDistance::correlation;
  result.unit_rows = options.ground == NeuronDistance::unit || result.centred;
  result.ground = cost_between(options.ground);
  result.importance = options.importance;
  result.scaling = options.scaling;
  result.regularization = options.regularization;
  return result;
}

Alignment identity_alignment(const Network& network) {
  Alignment result;
  for (const ChannelClass& own : network.classes) {
    result.maps.push_back(identity_map(own.size));
    result.classes.push_back(
        {.name = own.name, .source = own.size, .target = own.size, .fixed = own.fixed, .reason = own.reason});
    if (own.kind >= 0 && !result.blocks.contains(own.kind))
      result.blocks[own.kind] = identity_blocks({{&own, &own, {}}});
  }
  return result;
}

// Every network but the reference by transport, with this rule for its plans.
std::vector<Alignment> align_each(const AlignmentTask& task, PlanRule rule) {
  std::vector<std::unique_ptr<ActivationPoints>> activations(task.networks.size());
  if (task.options.align == AlignBy::activations)
    for (size_t k = 0; k < task.networks.size(); ++k)
      activations[k] = std::make_unique<ActivationPoints>(task.networks[k], task.samples, task.observer.ranks());
  std::vector<Alignment> result;
  for (size_t k = 0; k < task.networks.size(); ++k)
    result.push_back(k == task.reference
                         ? identity_alignment(task.target())
                         : align_by_transport(task.networks[k], task.target(), transport_options(task.options, rule),
                                              {activations[k].get(), activations[task.reference].get()},
                                              task.observer));
  return result;
}

template <PlanRule rule>
std::vector<Alignment> by_rule(const AlignmentTask& task) {
  return align_each(task, rule);
}

std::vector<Alignment> by_transport(const AlignmentTask& task) {
  return align_each(task, task.options.solver == TransportSolver::sinkhorn ? PlanRule::sinkhorn : PlanRule::exact);
}

WeightMatchingOptions matching_options(const FuseOptions& options) {
  return {.scaling = options.scaling, .seed = options.seed};
}

std::vector<Alignment> by_weight_matching(const AlignmentTask& task) {
  std::vector<Alignment> result = by_transport(task);
  for (size_t k = 0; k < result.size(); ++k)
    if (k != task.reference)
      result[k] = match_weights(task.networks[k], task.target(), std::move(result[k]), matching_options(task.options),
                                task.observer);
  return result;
}

std::vector<Alignment> to_the_mean_of_others(const AlignmentTask& task) {
  std::vector<Alignment> result = by_weight_matching(task);
  if (result.size() > 2)
    match_many(task.networks, task.target(), result, matching_options(task.options), task.observer);
  return result;
}

std::vector<Alignment> to_barycentre(const AlignmentTask& task) {
  return align_to_barycentre(task, transport_options(task.options, PlanRule::exact));
}

}  // namespace

const std::vector<FusionMethod>& fusion_method_list() {
  const std::set<std::string> transport = {"align", "solver", "ground", "importance", "scaling"};
  static const std::vector<FusionMethod> list = {
      {"ot", transport, by_transport},
      {"average", {}, by_rule<PlanRule::identity>, ChannelUse::exchange, /*keeps_function=*/false},
      {"hungarian", {"align", "ground"}, by_rule<PlanRule::hungarian>},
      {"greedy", {"align", "ground"}, by_rule<PlanRule::greedy>},
      {"rebasin", transport, by_weight_matching},        // with the options of the transport it starts from
      {"merge-many", transport, to_the_mean_of_others},  // likewise
      // It has no blocks: its classes are those of a removal.
      {.name = "barycentre",
       .options = {"ground", "scaling"},
       .align = to_barycentre,
       .use = ChannelUse::removal,
       .distances = {NeuronDistance::unit, NeuronDistance::euclidean}},
  };
  return list;
}

std::vector<std::string> fusion_methods() {
  std::vector<std::string> names;
  for (const FusionMethod& method : fusion_method_list()) names.push_back(method.name);
  return names;
}

const FusionMethod& find_fusion_method(const std::string& name) {
  const auto found = std::ranges::find(fusion_method_list(), name, &FusionMethod::name);
  if (found == fusion_method_list().end())
    throw Error(ErrorKind::usage, OptionName{"method"}, "'{}' is none of {}", name, fmt::join(fusion_methods(), ", "));
  return *found;
}

}  // namespace pare
