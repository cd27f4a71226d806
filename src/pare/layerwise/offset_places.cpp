#include "pare/layerwise/offset_places.h"

#include <ATen/ATen.h>

#include "pare/analysis/layers.h"

namespace pare {

namespace {

int64_t outputs_of(const Graph& graph, const LinearLayer& layer) {
  return graph.tensor(graph.nodes[layer.node].inputs[1]).size(layer.out_axis) * (layer.transposed ? layer.groups : 1);
}

bool has_bias(const Graph& graph, const LinearLayer& layer) {
  const Node& node = graph.nodes[layer.node];
  return node.op != "MatMul" && node.has_input(2) && graph.is_constant(node.inputs[2]) &&
         graph.tensor(node.inputs[2]).numel() == outputs_of(graph, layer) &&
         (node.op != "Gemm" || node.real("beta", 1) != 0);
}

bool is_zero(const Graph& graph, const std::string& name) {
  return graph.is_constant(name) && graph.tensor(name).count_nonzero().item<int64_t>() == 0;
}

}  // namespace

Graph with_offset_places(Graph graph) {
  for (size_t n = graph.nodes.size(); n-- > 0;) {  // from the end: an addition moves only what comes after it
    const auto layer = layer_of(graph, n);
    if (!layer || has_bias(graph, *layer)) continue;
    add_offset(graph, *layer, at::zeros({outputs_of(graph, *layer)}, at::kDouble));
  }
  return graph;
}

Graph without_zero_offsets(Graph graph) {
  for (Node& node : graph.nodes)
    if ((node.op == "Conv" || node.op == "ConvTranspose" || node.op == "Gemm") && node.has_input(2) &&
        is_zero(graph, node.inputs[2]))
      node.inputs.resize(2);
  for (size_t n = 0; n + 1 < graph.nodes.size(); ++n) {
    const auto layer = layer_of(graph, n);
    const auto reader = layer && !layer->takes_bias ? only_reader(graph, usage_of(graph), n) : std::nullopt;
    if (!reader || graph.nodes[*reader].op != "Add") continue;
    const Node& add = graph.nodes[*reader];
    const std::string& other = add.inputs[add.inputs[0] == graph.nodes[n].outputs[0] ? 1 : 0];
    const auto zero = graph.tensors.find(other);
    const int64_t outputs = graph.tensor(graph.nodes[n].inputs[1]).size(layer->out_axis);
    if (zero == graph.tensors.end() || zero->second.dim() != 1 || zero->second.numel() != outputs ||
        zero->second.count_nonzero().item<int64_t>() > 0)
      continue;
    graph.nodes[n].outputs[0] = add.outputs[0];
    graph.nodes.erase(graph.nodes.begin() + static_cast<int64_t>(*reader));
  }
  return remove_unused(std::move(graph));
}

}  // namespace pare
