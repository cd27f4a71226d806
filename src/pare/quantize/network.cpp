#include "pare/quantize/network.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "pare/layerwise/offset_places.h"
#include "pare/layerwise/variants.h"
#include "pare/passes/fold_batch_norm.h"
#include "pare/passes/run_pass.h"
#include "pare/quantize/activations.h"
#include "pare/quantize/plan.h"
#include "pare/quantize/weights.h"

namespace pare {

namespace {

RangeOptions range_options(const QuantizeOptions& options) {
  const bool symmetric = options.activations == ActivationBits::symmetric;
  return {.method = options.range,
          .percentile = options.percentile,
          .symmetric = symmetric,
          .levels = symmetric ? 255 : 256};
}

// Of the values that have a range of their own.
std::map<std::string, ValueRange> ranges_of(const Graph& graph, const QuantizationPlan& plan, const Samples& samples,
                                            const QuantizeOptions& options, Observer& observer) {
  std::set<std::string> roots;
  for (const auto& [value, root] : plan.values) roots.insert(root);
  if (roots.empty()) return {};
  return calibrate_ranges(graph, {roots.begin(), roots.end()}, samples, range_options(options), observer);
}

QuantizedLayer described(const Graph& graph, const LinearLayer& layer) {
  const Node& node = graph.nodes[layer.node];
  return {.name = layer_name(graph, layer), .op = node.op, .weights = graph.tensor(node.inputs[1]).numel()};
}

std::vector<std::string> constant_values(const std::map<std::string, ValueRange>& ranges) {
  std::vector<std::string> notes;
  for (const auto& [value, range] : ranges)
    if (!(range.high > range.low)) notes.push_back(fmt::format("{} is zero on all samples: its scale is 1", value));
  return notes;
}

}  // namespace

QuantizedNetwork quantize_network(const Graph& given, const Samples& samples, const Samples& learned,
                                  const QuantizeOptions& options, Observer& observer) {
  const bool repairs = options.compensate != RoundingRepair::none;
  const Graph folded = run_pass("fold_batch_norm", fold_batch_norm, given);
  const Graph graph = repairs ? with_offset_places(folded) : folded;
  const QuantizationPlan plan = plan_quantization(graph, options);
  QuantizedNetwork result{.layers = plan.left};
  result.ranges = ranges_of(graph, plan, samples, options, observer);
  result.notes = constant_values(result.ranges);
  const QuantizedActivations activations =
      quantize_activations(graph, plan, result.ranges, options.activations == ActivationBits::symmetric);
  RoundedNetwork rounded = round_layers(graph, activations, plan, learned, options, observer);
  for (const auto& layer : plan.layers) {
    const RoundedWeight& own = rounded.layers.at(graph.nodes[layer.node].outputs[0]);
    QuantizedLayer entry = described(graph, layer);
    entry.bits = own.bits;
    entry.error = own.error;
    result.layers.push_back(std::move(entry));
  }
  result.notes.insert(result.notes.end(), rounded.notes.begin(), rounded.notes.end());
  const Graph settled = repairs ? without_zero_offsets(std::move(rounded.graph)) : std::move(rounded.graph);
  result.graph = run_pass(
      "store_integers", [&](const Graph& floats) { return store_integers(floats, rounded.layers, activations.grids); },
      settled);
  return result;
}

std::vector<QuantizedLayer> scan_layers(const Graph& given, const Samples& samples,
                                        const QuantizeOptions& given_options, Observer& observer) {
  QuantizeOptions options = given_options;
  options.compensate = RoundingRepair::none;
  const Graph graph = run_pass("fold_batch_norm", fold_batch_norm, given);
  const QuantizationPlan plan = plan_quantization(graph, options);
  const auto ranges = ranges_of(graph, plan, samples, options, observer);
  std::vector<Graph> variants;
  std::vector<QuantizedLayer> layers;
  for (const auto& layer : plan.layers) {
    QuantizationPlan alone{.layers = {layer}};
    if (const auto read = plan.values.find(graph.nodes[layer.node].inputs[0]); read != plan.values.end())
      alone.values = {*read};
    const QuantizedActivations activations =
        quantize_activations(graph, alone, ranges, options.activations == ActivationBits::symmetric);
    RoundedNetwork rounded = round_layers(graph, activations, alone, samples, options, observer);
    const RoundedWeight& own = rounded.layers.at(graph.nodes[layer.node].outputs[0]);
    QuantizedLayer entry = described(graph, layer);
    entry.bits = own.bits;
    entry.error = own.error;
    layers.push_back(std::move(entry));
    variants.push_back(std::move(rounded.graph));
  }
  const std::vector<double> costs = answer_divergences(graph, variants, samples, observer, "trying layers");
  for (size_t i = 0; i < layers.size(); ++i) layers[i].divergence = costs[i];
  std::stable_sort(layers.begin(), layers.end(),
                   [](const QuantizedLayer& a, const QuantizedLayer& b) { return a.divergence > b.divergence; });
  layers.insert(layers.end(), plan.left.begin(), plan.left.end());
  return layers;
}

}  // namespace pare
