#include "pare/quantize/plan.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "pare/analysis/shapes.h"
#include "pare/core/glob.h"
#include "pare/error.h"
#include "pare/layerwise/linear_rows.h"
#include "pare/ops/op.h"
#include "pare/ops/traits.h"

namespace pare {

std::string layer_name(const Graph& graph, const LinearLayer& layer) {
  const Node& node = graph.nodes[layer.node];
  return node.name.empty() ? node.outputs[0] : node.name;
}

std::optional<size_t> fused_activation(const Graph& graph, const Usage& usage, size_t node) {
  const auto reader = only_reader(graph, usage, node);
  if (!reader) return {};
  const Node& activation = graph.nodes[*reader];
  if (!activation.domain.empty() || activation.inputs[0] != graph.nodes[node].outputs[0]) return {};
  if (activation.op == "Relu") return reader;
  if (activation.op != "Clip") return {};
  for (size_t i = 1; i < activation.inputs.size(); ++i)
    if (activation.has_input(i) && !graph.is_constant(activation.inputs[i])) return {};
  return reader;
}

namespace {

class Planner {
 public:
  Planner(const Graph& graph, const QuantizeOptions& options)
      : graph_(graph), options_(options), usage_(usage_of(graph)), shapes_(analysis_shapes(graph)) {}

  QuantizationPlan plan() {
    refuse_quantized(graph_);
    choose_layers();
    if (plan_.layers.empty()) throw Error(ErrorKind::usage, graph_.name, "has no layer that can be quantised");
    if (options_.activations != ActivationBits::none) choose_values();
    return std::move(plan_);
  }

 private:
  void choose_layers() {
    std::vector<LinearLayer> all;
    for (size_t n = 0; n < graph_.nodes.size(); ++n)
      if (const auto layer = layer_of(graph_, n))
        all.push_back(*layer);
      else if (kind_of(graph_.nodes[n]) == OpKind::linear)
        plan_.left.push_back({.name = describe(graph_.nodes[n]),
                              .op = graph_.nodes[n].op,
                              .bits = 32,
                              .reason = "is no plain product with a constant weight"});
    const std::set<size_t> skipped = skipped_layers(all);
    for (size_t i = 0; i < all.size(); ++i) {
      const std::string reason = options_.keep_first && i == 0               ? "the first layer"
                                 : options_.keep_last && i + 1 == all.size() ? "the last layer"
                                 : skipped.contains(i)                       ? "skipped"
                                                                             : reason_against(all[i]);
      if (reason.empty()) {
        plan_.layers.push_back(all[i]);
        continue;
      }
      const Node& node = graph_.nodes[all[i].node];
      plan_.left.push_back({.name = layer_name(graph_, all[i]),
                            .op = node.op,
                            .weights = graph_.tensor(node.inputs[1]).numel(),
                            .bits = 32,
                            .reason = reason});
    }
  }

  std::set<size_t> skipped_layers(const std::vector<LinearLayer>& all) const {
    std::set<size_t> skipped;
    for (const auto& glob : options_.skip) {
      const size_t before = skipped.size();
      for (size_t i = 0; i < all.size(); ++i)
        if (glob_matches(glob, layer_name(graph_, all[i]))) skipped.insert(i);
      if (skipped.size() == before) throw Error(ErrorKind::usage, OptionName{"skip"}, "'{}' matches no layer", glob);
    }
    return skipped;
  }

  std::string reason_against(const LinearLayer& layer) const {
    const at::Tensor& weight = graph_.tensor(graph_.nodes[layer.node].inputs[1]);
    if (weight.scalar_type() != at::kFloat) return "its weights are not float32";
    if (weight.numel() == 0) return "it has no weights";
    if (!at::isfinite(weight).all().item<bool>())
      throw Error(ErrorKind::format, graph_.nodes[layer.node].inputs[1], "holds NaN or infinite weights");
    return "";
  }

  // --- activations

  void choose_values() {
    for (const auto& layer : plan_.layers) {
      want(graph_.nodes[layer.node].inputs[0]);
      if (!layer.is_convolution()) continue;
      const auto activation = fused_activation(graph_, usage_, layer.node);
      const std::string& result = graph_.nodes[activation.value_or(layer.node)].outputs[0];
      if (usage_.consumers.contains(result)) want(result);
    }
    for (size_t i = 0; i < waiting_.size(); ++i) {  // grows on the way
      const std::string value = waiting_[i];
      const auto source = source_of(value);
      if (source) want(*source);
      for (const auto& input : carried_into(value)) want(input);
    }
    for (const auto& value : waiting_) plan_.values[value] = root_of(value);
  }

  void want(const std::string& value) {
    if (value.empty() || graph_.is_constant(value)) return;
    const TensorType* type = shapes_.find(value);
    if (type != nullptr && type->dtype != at::kFloat) return;
    if (wanted_.insert(value).second) waiting_.push_back(value);
  }

  // The node that makes a value, looked at through an activation that it takes in.
  std::optional<size_t> maker(const std::string& value) const {
    const auto made = usage_.producer.find(value);
    if (made == usage_.producer.end()) return {};
    const Node& node = graph_.nodes[made->second];
    const auto before = node.inputs.empty() ? usage_.producer.end() : usage_.producer.find(node.inputs[0]);
    if (before != usage_.producer.end() && fused_activation(graph_, usage_, before->second) == made->second)
      return before->second;
    return made->second;
  }

  // What the value's elements are moved from.
  std::optional<std::string> source_of(const std::string& value) const {
    const auto made = usage_.producer.find(value);
    if (made == usage_.producer.end()) return {};
    const Node& node = graph_.nodes[made->second];
    const OpKind kind = kind_of(node);
    const bool moves = kind == OpKind::reshape || kind == OpKind::permutation || kind == OpKind::selection ||
                       (kind == OpKind::maximum && node.op == "MaxPool");
    return moves && node.has_input(0) && !graph_.is_constant(node.inputs[0]) ? std::optional(node.inputs[0])
                                                                             : std::nullopt;
  }

  std::string root_of(std::string value) const {
    for (auto source = source_of(value); source && wanted_.contains(*source); source = source_of(value))
      value = *source;
    return value;
  }

  // What operators that have an integer form read to make the value.
  std::vector<std::string> carried_into(const std::string& value) const {
    const auto node = maker(value);
    if (!node) return {};
    const Node& made = graph_.nodes[*node];
    const OpKind kind = kind_of(made);
    const bool average = kind == OpKind::average && made.op.ends_with("AveragePool");
    if (kind != OpKind::join && made.op != "Add" && !average) return {};
    for (const auto& input : made.inputs)
      if (graph_.is_constant(input)) return {};
    return made.inputs;
  }

  const Graph& graph_;
  const QuantizeOptions& options_;
  Usage usage_;
  Shapes shapes_;
  QuantizationPlan plan_;
  std::set<std::string> wanted_;
  std::vector<std::string> waiting_;
};

}  // namespace

void refuse_quantized(const Graph& graph) {
  const auto quantized = std::ranges::count_if(graph.nodes, [](const Node& node) { return traits_of(node).quantized; });
  if (quantized > 0)
    throw Error(ErrorKind::usage, graph.name.empty() ? "the model" : graph.name,
                "is quantised already: {} of its nodes quantise or dequantise", quantized);
}

QuantizationPlan plan_quantization(const Graph& graph, const QuantizeOptions& options) {
  return Planner(graph, options).plan();
}

}  // namespace pare
