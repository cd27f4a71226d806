#include "pare/fuse/fuse.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "pare/calibrate/moments.h"
#include "pare/calibrate/noise.h"
#include "pare/calibrate/stretch.h"
#include "pare/core/error.h"
#include "pare/core/options.h"
#include "pare/fuse/average.h"
#include "pare/fuse/repair.h"
#include "pare/fuse/weight_matching.h"
#include "pare/transport/barycentre.h"

namespace pare {

namespace {

TransportFusionOptions transport_options(const FuseOptions& options) {
  TransportFusionOptions result;
  if (options.method == "hungarian")
    result.rule = PlanRule::hungarian;
  else if (options.method == "greedy")
    result.rule = PlanRule::greedy;
  else if (options.method == "average")
    result.rule = PlanRule::identity;
  else
    result.rule = options.solver == TransportSolver::sinkhorn ? PlanRule::sinkhorn : PlanRule::exact;
  result.centred = options.ground == NeuronDistance::correlation;
  result.unit_rows = options.ground == NeuronDistance::unit || result.centred;
  result.ground = result.unit_rows ? GroundCost::euclidean : parse_ground_cost(std::string(name_of(options.ground)));
  result.importance = options.importance;
  result.scaling = options.scaling;
  result.regularization = options.regularization;
  return result;
}

Alignment identity_alignment(const Network& network) {
  Alignment result;
  for (const ChannelClass& of : network.classes) {
    result.maps.push_back(identity_map(of.size));
    result.classes.push_back(
        {.name = of.name, .source = of.size, .target = of.size, .fixed = of.fixed, .reason = of.reason});
    if (of.kind >= 0 && !result.blocks.contains(of.kind)) result.blocks[of.kind] = identity_blocks({{&of, &of, {}}});
  }
  return result;
}

// Layer by layer, the barycentre of all networks' neurons is where each of them, the reference too, is sent to.
std::vector<Alignment> align_to_barycentre(const std::vector<Network>& networks, const Network& reference,
                                           const std::vector<double>& shares, const TransportFusionOptions& options) {
  std::vector<Alignment> result(networks.size());
  for (size_t k = 0; k < networks.size(); ++k) result[k].maps.resize(networks[k].classes.size());
  const at::Tensor weights = at::tensor(shares, at::kDouble);
  for (size_t l = 0; l < reference.classes.size(); ++l) {
    std::vector<at::Tensor> measures;
    if (!reference.classes[l].fixed) {
      at::Tensor start;
      for (size_t k = 0; k < networks.size(); ++k) {
        const PointPair points = weight_points(networks[k], reference, l, result[k].maps, PointSides::incoming);
        measures.push_back(options.unit_rows ? unit_rows(points.source) : points.source);
        start = options.unit_rows ? unit_rows(points.target) : points.target;
      }
      const FreeSupportBarycentre found = free_support_barycentre(measures, weights, start, {.max_iterations = 50});
      for (size_t k = 0; k < networks.size(); ++k) {
        const at::Tensor D = ground_cost(measures[k].to(at::kDouble), found.points);
        result[k].maps[l] = make_map(found.plans[k], options.scaling);
        result[k].classes.push_back({.name = reference.classes[l].name,
                                     .source = networks[k].classes[l].size,
                                     .target = reference.classes[l].size,
                                     .cost = (found.plans[k] * D).sum().item<double>(),
                                     .split = mass_split(found.plans[k]),
                                     .converged = found.converged});
      }
      continue;
    }
    for (size_t k = 0; k < networks.size(); ++k) {
      const int64_t size = reference.classes[l].size;
      result[k].maps[l] = identity_map(size);
      result[k].classes.push_back({.name = reference.classes[l].name,
                                   .source = size,
                                   .target = size,
                                   .fixed = true,
                                   .reason = reference.classes[l].reason});
    }
  }
  return result;
}

std::vector<Alignment> align_all(const std::vector<Network>& networks, size_t reference, const FuseOptions& options,
                                 const std::vector<double>& shares, const std::vector<at::Tensor>& samples,
                                 ProcessGroup& ranks) {
  const TransportFusionOptions transport = transport_options(options);
  const Network& target = networks[reference];
  if (options.method == "barycentre") return align_to_barycentre(networks, target, shares, transport);
  std::vector<std::unique_ptr<ActivationPoints>> activations(networks.size());
  if (options.align == AlignBy::activations)
    for (size_t k = 0; k < networks.size(); ++k)
      activations[k] = std::make_unique<ActivationPoints>(networks[k], samples, ranks);
  const WeightMatchingOptions matching{.scaling = transport.scaling, .seed = options.seed};
  std::vector<Alignment> result;
  for (size_t k = 0; k < networks.size(); ++k) {
    if (k == reference) {
      result.push_back(identity_alignment(target));
      continue;
    }
    result.push_back(
        align_by_transport(networks[k], target, transport, {activations[k].get(), activations[reference].get()}));
    if (options.method == "rebasin" || options.method == "merge-many")
      result.back() = match_weights(networks[k], target, std::move(result.back()), matching);
  }
  if (options.method == "merge-many" && networks.size() > 2) match_many(networks, target, result, matching);
  return result;
}

bool has_operator(const Graph& graph, const std::string& op) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return node.op == op; });
}

// Convolutions whose statistics no batch norm keeps.
bool has_plain_convolutions(const Graph& graph) {
  return has_operator(graph, "Conv") && !has_operator(graph, "BatchNormalization");
}

// Inputs for a repair without data: smooth noise, with the spectrum of photographs for plain convolutions.
std::vector<at::Tensor> made_inputs(const Graph& graph, const FuseOptions& options) {
  const auto kind = has_plain_convolutions(graph) ? NoiseKind::pink : NoiseKind::smooth;
  return noise_inputs(graph, {.kind = kind, .count = options.inputs, .window = 7, .seed = options.seed});
}

void repair(FusionResult& result, const FuseOptions& options, const std::vector<at::Tensor>& samples,
            ProcessGroup& ranks) {
  const Parents parents{result.aligned, result.shares, ranks};
  if (options.repair == FusionRepair::rescale)
    result.fused = samples.empty() ? rescale_norms(result.fused, parents) : rescale(result.fused, parents, samples);
  if (options.repair != FusionRepair::regression) return;
  result.on_noise = samples.empty();
  // Each rank mixes its own samples, to its part of the inputs.
  const int64_t part = std::max<int64_t>(1, options.inputs / ranks.size());
  const auto inputs = result.on_noise ? own_part(made_inputs(result.fused, options), ranks)
                                      : stretch_samples(samples, {.count = part, .seed = options.seed});
  // Without batch norms a convolution fitted to noise is worse than before on images; its statistics alone are better.
  if (result.on_noise && has_plain_convolutions(result.fused))
    result.fused = rescale(result.fused, parents, inputs);
  else
    result.fused = regress(result.fused, parents, inputs, options.rho > 0 ? options.rho : result.on_noise ? 0.1 : 0.03);
}

// Which of the options about the alignment a method looks at.
struct Method {
  std::string name;
  std::set<std::string> options;
};
const std::vector<Method> kMethodList = {
    {"ot", {"align", "solver", "ground", "importance", "scaling"}},
    {"average", {}},
    {"hungarian", {"align", "ground"}},
    {"greedy", {"align", "ground"}},
    {"rebasin", {"align", "solver", "ground", "importance", "scaling"}},     // of the transport it starts from
    {"merge-many", {"align", "solver", "ground", "importance", "scaling"}},  // likewise
    {"barycentre", {"ground", "scaling"}},
};

// The methods that look at an option.
Choices methods_with(const std::string& option) {
  Choices names;
  for (const Method& method : kMethodList)
    if (method.options.contains(option)) names.push_back(method.name);
  return names;
}

nlohmann::json as_json(FuseOptions options) {
  JsonWriter writer;
  options.describe(writer);
  return writer.json();
}

// An option that the method, the solver or the repair does not look at may not be given another value.
void check_used(const FuseOptions& options) {
  const auto method = std::ranges::find(kMethodList, options.method, &Method::name);
  std::set<std::string> used = method->options;
  used.insert({"method", "repair", "reference"});
  std::map<std::string, std::string> unused_because;
  if (used.contains("solver") && options.solver == TransportSolver::sinkhorn)
    used.insert("regularization");
  else
    unused_because["regularization"] = "only `solver` sinkhorn of a method that transports looks at it";
  if (options.repair == FusionRepair::regression) used.insert({"rho", "inputs"});
  for (const std::string name : {"rho", "inputs"}) unused_because[name] = "only `repair` regression looks at it";
  const nlohmann::json given = as_json(options);
  const nlohmann::json otherwise = as_json({});
  for (const auto& [name, value] : given.items()) {
    if (used.contains(name) || value == otherwise.at(name)) continue;
    const auto because = unused_because.find(name);
    throw Error(ErrorKind::usage, OptionName{name}, "{}",
                because != unused_because.end() ? because->second
                                                : fmt::format("`method` {} does not look at it", options.method));
  }
  if (options.method == "barycentre" && options.ground != NeuronDistance::unit &&
      options.ground != NeuronDistance::euclidean)
    throw Error(ErrorKind::usage, OptionName{"ground"}, "`method` barycentre takes unit or euclidean, found {}",
                name_of(options.ground));
}

void check_options(const FuseOptions& options, size_t models, bool has_samples) {
  if (std::ranges::find(kMethodList, options.method, &Method::name) == kMethodList.end())
    throw Error(ErrorKind::usage, OptionName{"method"}, "'{}' is none of {}", options.method,
                fmt::join(fusion_methods(), ", "));
  check_used(options);
  if (models < 2) throw Error(ErrorKind::usage, "models", "fusion needs at least two, found {}", models);
  if (options.reference < 0 || options.reference >= static_cast<int64_t>(models))
    throw Error(ErrorKind::usage, OptionName{"reference"}, "expected 0 to {}, found {}", models - 1, options.reference);
  if (options.inputs < 1)
    throw Error(ErrorKind::usage, OptionName{"inputs"}, "expected at least 1, found {}", options.inputs);
  if (!(options.rho >= 0))
    throw Error(ErrorKind::usage, OptionName{"rho"}, "expected 0 or more, found {}", options.rho);
  if (options.align == AlignBy::activations && !has_samples)
    throw Error(ErrorKind::usage, OptionName{"align"}, "activations need samples: give `data`");
}

}  // namespace

std::vector<std::string> fusion_methods() {
  std::vector<std::string> names;
  for (const Method& method : kMethodList) names.push_back(method.name);
  return names;
}

void FuseOptions::describe(OptionVisitor& options) {
  options.field("method", method, "how neurons are matched before they are averaged", fusion_methods());
  options.field("align", align, "what neurons are compared by");
  options.field("solver", solver, "exact transport, or with entropy");
  options.field("ground", ground, "distance of neurons; unit: euclidean between rows of unit length");
  options.field("importance", importance, "mass of a neuron: equal, or by the norm of its weights");
  options.field("scaling", scaling, "of outgoing weights where widths differ");
  options.field("regularization", regularization, "of sinkhorn, relative to the largest distance");
  options.field("repair", repair, "statistics after averaging: per neuron, or by least squares to the parents");
  options.field("rho", rho, "ridge of the regression (0: 0.03 on samples, 0.1 on noise)");
  options.field("inputs", inputs, "of the regression: noise, or the samples and mixtures of them");
  options.field("reference", reference, "index of the model that the others are aligned to");
  for (const char* name : {"align", "solver", "ground", "importance", "scaling"})
    options.only({name}, {with("method", methods_with(name))});
  options.only({"regularization"}, {with("solver", {"sinkhorn"})});
  options.only({"rho", "inputs"}, {with("repair", {"regression"})});
}

FusionResult fuse(const std::vector<Graph>& models, const FuseOptions& options, const std::vector<at::Tensor>& samples,
                  ProcessGroup& ranks) {
  const at::NoGradGuard no_grad;
  check_options(options, models.size(), !samples.empty());
  const auto reference = static_cast<size_t>(options.reference);
  FusionResult result;
  result.shares = mixing_shares(options.weights, models.size());

  // A barycentre has no blocks: its classes are those of a removal.
  const auto use = options.method == "barycentre" ? ChannelUse::removal : ChannelUse::exchange;
  const Network target = analyze_network(models[reference], use);
  std::vector<Network> networks;
  for (size_t k = 0; k < models.size(); ++k)
    networks.push_back(k == reference ? target : matched_to(target, analyze_network(models[k], use)));
  std::vector<Alignment> alignments = align_all(networks, reference, options, result.shares, samples, ranks);
  for (size_t k = 0; k < models.size(); ++k) {
    const ClassMaps& maps = alignments[k].maps;
    result.aligned.push_back(carried_network(networks[k], target, maps));
    result.alignments.push_back({.classes = std::move(alignments[k].classes)});
    for (const ClassMap& map : maps) result.alignments.back().plans.push_back(map.plan);
    if (all_permutations(maps) && options.method != "average") check_equivalent(networks[k].graph, result.aligned[k]);
  }
  result.fused = weighted_average(result.aligned, result.shares, reference);
  repair(result, options, samples, ranks);
  return result;
}

}  // namespace pare
