#include "pare/fuse/linear_layers.h"

#include <ATen/ATen.h>

#include <map>

#include "pare/layerwise/linear_rows.h"

namespace pare {

std::vector<LinearLayer> linear_layers(const Graph& graph) {
  std::map<std::string, int> readers;
  for (const Node& node : graph.nodes)
    for (const std::string& input : node.inputs) ++readers[input];
  std::vector<LinearLayer> layers;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto layer = layer_of(graph, n);
    const Node& node = graph.nodes[n];
    if (!layer || layer->groups != 1 || layer->transposed || readers[node.inputs[layer->weight]] > 1) continue;
    if (node.has_input(2)) {
      const auto bias = graph.tensors.find(node.inputs[2]);
      if (bias == graph.tensors.end() || bias->second.dim() != 1 || readers[node.inputs[2]] > 1) continue;
    }
    layers.push_back(*layer);
  }
  return layers;
}

Graph with_biases(Graph graph, const std::set<std::string>& but) {
  for (const LinearLayer& layer : linear_layers(graph)) {
    Node& node = graph.nodes[layer.node];
    if (node.has_input(2) || !layer.takes_bias || but.contains(node.outputs[0])) continue;
    const std::string& weight = node.inputs[layer.weight];
    std::string name = weight;
    const std::string ending = "weight";
    if (name.ends_with(ending)) name.replace(name.size() - ending.size(), ending.size(), "bias");
    if (name == weight) name += "_bias";
    name = fresh_name(graph, name);
    const at::Tensor& W = graph.tensor(weight);
    graph.tensors[name] = at::zeros({W.size(layer.out_axis)}, W.options());
    node.inputs.resize(3);
    node.inputs[2] = name;
  }
  return graph;
}

const at::Tensor& bias_of(const Graph& graph, const LinearLayer& layer) {
  return graph.tensor(graph.nodes[layer.node].inputs[2]);
}

at::Tensor weight_matrix(const Graph& graph, const LinearLayer& layer) {
  return weight_by_group(graph, layer)[0].flatten(1);
}

void set_weight_matrix(Graph& graph, const LinearLayer& layer, const at::Tensor& weight, const at::Tensor& bias) {
  store_weight(graph, layer, weight.reshape(weight_by_group(graph, layer).sizes()));
  if (has_bias(graph, layer))
    replace_constant(graph, layer.node, 2, bias.to(bias_of(graph, layer).scalar_type()).contiguous());
}

}  // namespace pare
