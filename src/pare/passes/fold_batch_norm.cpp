#include "pare/passes/fold_batch_norm.h"

#include <ATen/ATen.h>

#include <set>

#include "pare/analysis/layers.h"
#include "pare/ops/traits.h"
#include "pare/passes/nodes.h"

namespace pare {

namespace {

bool constant_from(const Graph& graph, const Node& node, size_t first) {
  for (size_t i = first; i < node.inputs.size(); ++i)
    if (node.has_input(i) && !graph.is_constant(node.inputs[i])) return false;
  return true;
}

// The layer whose product the norm scales and shifts, if that can be done once and for all.
std::optional<LinearLayer> foldable(const Graph& graph, size_t layer_node, const Node& norm) {
  const auto layer = layer_of(graph, layer_node);
  if (!layer || !layer->takes_bias || norm.integer("training_mode", 0) != 0 || norm.outputs.size() > 1) return {};
  return constant_from(graph, norm, 1) && constant_from(graph, graph.nodes[layer_node], 1) ? layer : std::nullopt;
}

// The weight scaled along its output axis.
at::Tensor scaled_weight(const LinearLayer& layer, const at::Tensor& weight, const at::Tensor& scale) {
  std::vector<int64_t> dims(static_cast<size_t>(weight.dim()), 1);
  dims[static_cast<size_t>(layer.out_axis)] = -1;
  if (!layer.transposed || layer.groups == 1) return weight * scale.reshape(dims);
  // [in, out / groups, …]: the outputs of a group belong to its share of the inputs.
  auto grouped = weight.sizes().vec();
  grouped[0] /= layer.groups;
  grouped.insert(grouped.begin(), layer.groups);
  dims.insert(dims.begin(), layer.groups);
  return (weight.reshape(grouped) * scale.reshape(dims)).reshape(weight.sizes());
}

}  // namespace

Graph fold_batch_norm(const Graph& original) {
  Graph graph = original;
  const Usage usage = usage_of(graph);
  const auto outputs = output_names(graph);
  std::set<size_t> gone;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node& norm = graph.nodes[n];
    if (!is_batch_norm(norm) || norm.inputs.empty()) continue;
    const auto made = usage.producer.find(norm.inputs[0]);
    if (made == usage.producer.end() || usage.consumers.find(norm.inputs[0])->second.size() != 1 ||
        outputs.contains(norm.inputs[0]))
      continue;
    const auto linear = foldable(graph, made->second, norm);
    if (!linear) continue;
    Node& layer = graph.nodes[made->second];
    const auto in = [&](size_t i) { return graph.tensor(norm.inputs[i]).to(at::kDouble); };
    const at::Tensor scale = in(1) / at::sqrt(in(4) + norm.real("epsilon", 1e-5));
    const at::Tensor weight = graph.tensor(layer.inputs[1]);
    at::Tensor shift = in(2) - scale * in(3);
    if (layer.has_input(2)) shift = shift + scale * graph.tensor(layer.inputs[2]).to(at::kDouble);
    const std::string base = norm.name.empty() ? norm.outputs[0] : norm.name;
    const std::string weight_name = fresh_name(graph, base + ".folded_weight");
    graph.tensors[weight_name] = scaled_weight(*linear, weight.to(at::kDouble), scale).to(weight.scalar_type());
    const std::string bias_name = fresh_name(graph, base + ".folded_bias");
    graph.tensors[bias_name] = shift.to(weight.scalar_type());
    layer.inputs.resize(3);
    layer.inputs[1] = weight_name;
    layer.inputs[2] = bias_name;
    layer.outputs[0] = norm.outputs[0];
    gone.insert(n);
  }
  return without_nodes(std::move(graph), gone);
}

}  // namespace pare
