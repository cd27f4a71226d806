#include "pare/fuse/fuse.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "pare/calibrate/moments.h"
#include "pare/calibrate/noise.h"
#include "pare/calibrate/stretch.h"
#include "pare/core/options.h"
#include "pare/error.h"
#include "pare/fuse/average.h"
#include "pare/fuse/methods.h"
#include "pare/fuse/repair.h"
#include "pare/samples/samples.h"

namespace pare {

namespace {

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
            Observer& observer) {
  ProcessGroup& ranks = observer.ranks();
  const Parents parents{.networks = result.aligned, .shares = result.shares, .observer = observer};
  if (options.repair == FusionRepair::rescale)
    result.fused =
        samples.empty() ? rescale_norms(result.fused, parents) : rescale(result.fused, parents, samples_of(samples));
  if (options.repair != FusionRepair::regression) return;
  result.on_noise = samples.empty();
  // Each rank mixes its own samples, to its part of the inputs.
  const int64_t part = std::max<int64_t>(1, options.inputs / ranks.size());
  const Samples inputs = samples_of(result.on_noise ? own_part(made_inputs(result.fused, options), ranks)
                                                    : stretch_samples(samples, {.count = part, .seed = options.seed}));
  // Without batch norms a convolution fitted to noise is worse than before on images; its statistics alone are better.
  if (result.on_noise && has_plain_convolutions(result.fused))
    result.fused = rescale(result.fused, parents, inputs);
  else
    result.fused = regress(result.fused, parents, inputs, options.rho > 0 ? options.rho : result.on_noise ? 0.1 : 0.03);
}

// The methods that look at an option.
Choices methods_with(const std::string& option) {
  Choices names;
  for (const FusionMethod& method : fusion_method_list())
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
  const FusionMethod& method = find_fusion_method(options.method);
  std::set<std::string> used = method.options;
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
  if (method.distances.empty() || method.distances.contains(options.ground)) return;
  std::vector<std::string_view> taken;
  for (const NeuronDistance distance : method.distances) taken.push_back(name_of(distance));
  throw Error(ErrorKind::usage, OptionName{"ground"}, "`method` {} takes {}, found {}", method.name,
              fmt::join(taken, " or "), name_of(options.ground));
}

void check_options(const FuseOptions& options, size_t models, bool has_samples) {
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

void FuseOptions::describe(OptionVisitor& options) {
  options.heading("how neurons are matched");
  options.essential().field("method", method, "how neurons are matched before they are averaged", fusion_methods());
  options.field("align", align, "what neurons are compared by");
  options.field("solver", solver, "exact transport, or with entropy");
  options.field("ground", ground, "distance of neurons; unit: euclidean between rows of unit length");
  options.field("importance", importance, "mass of a neuron: equal, or by the norm of its weights");
  options.field("scaling", scaling, "how outgoing weights are scaled where widths differ");
  options.field("regularization", regularization, "entropy of sinkhorn, relative to the largest distance");
  options.heading("repair of the average");
  options.essential().field(
      "repair", repair,
      "what is repaired after averaging: statistics of each neuron, or layers by least squares to the parents");
  options.field("rho", rho, "ridge of the regression (0: 0.03 on samples, 0.1 on noise)");
  options.field("inputs", inputs, "inputs of the regression: noise, or the samples and mixtures of them");
  options.heading("how neurons are matched");
  options.field("reference", reference, "index of the model that the others are aligned to");
  for (const char* name : {"align", "solver", "ground", "importance", "scaling"})
    options.only({name}, {with("method", methods_with(name))});
  options.only({"regularization"}, {with("solver", {"sinkhorn"})});
  options.only({"rho", "inputs"}, {with("repair", {"regression"})});
}

FusionResult fuse(const std::vector<Graph>& models, const FuseOptions& options, const std::vector<at::Tensor>& samples,
                  Observer& observer) {
  const at::NoGradGuard no_grad;
  check_options(options, models.size(), !samples.empty());
  const auto reference = static_cast<size_t>(options.reference);
  FusionResult result;
  result.shares = mixing_shares(options.weights, models.size());

  const FusionMethod& method = find_fusion_method(options.method);
  const Network target = analyze_network(models[reference], method.use);
  std::vector<Network> networks;
  for (size_t k = 0; k < models.size(); ++k)
    networks.push_back(k == reference ? target : matched_to(target, analyze_network(models[k], method.use)));
  std::vector<Alignment> alignments = method.align({networks, reference, options, result.shares, samples, observer});
  for (size_t k = 0; k < models.size(); ++k) {
    const ClassMaps& maps = alignments[k].maps;
    result.aligned.push_back(carried_network(networks[k], target, maps));
    result.alignments.push_back({.classes = std::move(alignments[k].classes)});
    for (const ClassMap& map : maps) result.alignments.back().plans.push_back(map.plan);
    if (all_permutations(maps) && method.keeps_function) check_equivalent(networks[k].graph, result.aligned[k]);
  }
  result.fused = weighted_average(result.aligned, result.shares, reference);
  repair(result, options, samples, observer);
  return result;
}

}  // namespace pare
