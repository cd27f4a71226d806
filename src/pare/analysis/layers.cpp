#include "pare/analysis/layers.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

namespace pare {

std::optional<LinearLayer> scaled_layer_of(const Graph& graph, size_t index) {
  const Node& node = graph.nodes[index];
  if (node.inputs.size() < 2 || !graph.is_constant(node.inputs[1]) || graph.is_constant(node.inputs[0])) return {};
  const int64_t rank = graph.tensor(node.inputs[1]).dim();
  auto layer = linear_layer(node, 1, rank);
  if (!layer || (!layer->is_convolution() && rank != 2)) return {};
  layer->node = index;
  return layer;
}

std::optional<LinearLayer> layer_of(const Graph& graph, size_t index) {
  const auto layer = scaled_layer_of(graph, index);
  return layer && layer->alpha == 1 && layer->beta == 1 ? layer : std::nullopt;
}

std::optional<size_t> only_reader(const Graph& graph, const Usage& usage, size_t node) {
  const std::string& value = graph.nodes[node].outputs.front();
  const auto readers = usage.consumers.find(value);
  if (readers == usage.consumers.end() || readers->second.size() != 1) return {};
  for (const auto& output : graph.outputs)
    if (output.name == value) return {};
  return readers->second.front();
}

std::optional<NormParameters> norm_parameters(const Graph& graph, size_t index) {
  const Node& node = graph.nodes[index];
  if (!is_batch_norm(node) || node.inputs.size() < 5) return {};
  if (node.integer("training_mode", 0) != 0) return {};
  for (size_t i = 1; i < 5; ++i)
    if (!graph.is_constant(node.inputs[i])) return {};
  const auto in = [&](size_t i) { return graph.tensor(node.inputs[i]).to(at::kDouble); };
  return NormParameters{in(1), in(2), in(3), at::sqrt(in(4) + node.real("epsilon", 1e-5))};
}

void replace_constant(Graph& graph, size_t index, size_t input, const at::Tensor& value) {
  Node& node = graph.nodes[index];
  if (node.inputs.size() <= input) node.inputs.resize(input + 1);
  std::string name = node.inputs[input];
  int64_t uses = 0;
  for (const auto& other : graph.nodes) {
    uses += std::count(other.inputs.begin(), other.inputs.end(), name);
    uses += std::count(other.captures.begin(), other.captures.end(), name);
  }
  for (const auto& output : graph.outputs) uses += output.name == name ? 1 : 0;
  if (name.empty() || uses != 1) {
    static constexpr const char* kSuffix[] = {"data", "weight", "bias"};
    const std::string base = node.name.empty() ? node.outputs[0] : node.name;
    name = fresh_name(graph, fmt::format("{}.{}", base, input < 3 ? kSuffix[input] : std::to_string(input)));
  }
  graph.tensors[name] = value;
  graph.nodes[index].inputs[input] = name;
}

namespace {

// The input of an Add that is a constant with one value per channel of the last axis.
std::optional<size_t> added_vector(const Graph& graph, const Node& node, int64_t channels) {
  if (node.op != "Add" || node.inputs.size() != 2) return {};
  for (size_t i = 0; i < 2; ++i) {
    const auto found = graph.tensors.find(node.inputs[i]);
    if (found != graph.tensors.end() && found->second.dim() >= 1 && found->second.numel() == channels &&
        found->second.size(-1) == channels)
      return i;
  }
  return {};
}

void insert_add(Graph& graph, size_t index, const at::Tensor& vector) {
  const std::string value = graph.nodes[index].outputs[0];
  const std::string base = graph.nodes[index].name.empty() ? value : graph.nodes[index].name;
  const std::string inner = fresh_name(graph, value + "_linear");
  graph.nodes[index].outputs[0] = inner;
  const std::string constant = fresh_name(graph, base + ".bias");
  graph.tensors[constant] = vector;
  Node add{.name = fresh_name(graph, base + "_bias"), .op = "Add", .inputs = {inner, constant}, .outputs = {value}};
  graph.nodes.insert(graph.nodes.begin() + static_cast<int64_t>(index) + 1, std::move(add));
}

}  // namespace

void add_offset(Graph& graph, const LinearLayer& layer, const at::Tensor& unscaled) {
  const Node& node = graph.nodes[layer.node];
  const at::ScalarType dtype = graph.tensor(node.inputs[1]).scalar_type();
  const at::Tensor offset = unscaled * layer.alpha;
  const auto moved = [&](size_t n, size_t input, double scale) {
    const at::Tensor old = graph.tensor(graph.nodes[n].inputs[input]);
    replace_constant(graph, n, input, (old.to(at::kDouble) + scale * offset.reshape_as(old)).to(old.scalar_type()));
  };
  const double beta = layer.beta;
  if (layer.takes_bias && node.has_input(2) && graph.is_constant(node.inputs[2]) && beta != 0 &&
      graph.tensor(node.inputs[2]).numel() == offset.numel())
    return moved(layer.node, 2, 1 / beta);
  const auto reader = only_reader(graph, usage_of(graph), layer.node);
  if (reader && norm_parameters(graph, *reader)) return moved(*reader, 3, -1);
  if (reader)
    if (const auto input = added_vector(graph, graph.nodes[*reader], offset.numel()); input && layer.value_axis == -1)
      return moved(*reader, *input, 1);
  if (!layer.takes_bias || node.has_input(2) || beta == 0) return insert_add(graph, layer.node, offset.to(dtype));
  replace_constant(graph, layer.node, 2, (offset / beta).to(dtype));
}

}  // namespace pare
