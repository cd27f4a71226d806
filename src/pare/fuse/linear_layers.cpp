#include "pare/fuse/linear_layers.h"

#include <ATen/ATen.h>

#include <map>

namespace pare {

namespace {

bool is_plain_conv(const Graph& graph, const Node& node) {
  return node.op == "Conv" && graph.is_constant(node.inputs[1]) && node.integer("group", 1) == 1 &&
         graph.tensor(node.inputs[1]).dim() == 4 && node.text("auto_pad", "NOTSET") == "NOTSET";
}

bool is_plain_gemm(const Graph& graph, const Node& node) {
  return node.op == "Gemm" && graph.is_constant(node.inputs[1]) && node.integer("transA", 0) == 0 &&
         node.real("alpha", 1) == 1 && node.real("beta", 1) == 1;
}

bool is_plain_matmul(const Graph& graph, const Node& node) {
  return node.op == "MatMul" && graph.is_constant(node.inputs[1]) && graph.tensor(node.inputs[1]).dim() == 2;
}

// Is the weight stored with inputs first?
bool inputs_first(const Node& node) {
  return node.op == "MatMul" || (node.op == "Gemm" && node.integer("transB", 0) == 0);
}

at::Tensor thinned(const at::Tensor& rows, int64_t stride) {
  return stride > 1 ? rows.slice(0, 0, rows.size(0), stride).contiguous() : rows;
}

}  // namespace

std::vector<LinearLayer> linear_layers(const Graph& graph) {
  std::map<std::string, int> readers;
  for (const Node& node : graph.nodes)
    for (const std::string& input : node.inputs) ++readers[input];
  std::vector<LinearLayer> layers;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!node.domain.empty() || node.inputs.size() < 2) continue;
    if (!is_plain_conv(graph, node) && !is_plain_gemm(graph, node) && !is_plain_matmul(graph, node)) continue;
    if (readers[node.inputs[1]] > 1 || graph.is_constant(node.inputs[0])) continue;
    LinearLayer layer{.node = n, .input = node.inputs[0], .output = node.outputs[0], .weight = node.inputs[1]};
    if (node.has_input(2)) {
      const auto found = graph.tensors.find(node.inputs[2]);
      if (found == graph.tensors.end() || found->second.dim() != 1 || readers[node.inputs[2]] > 1) continue;
      layer.bias = node.inputs[2];
    }
    layers.push_back(layer);
  }
  return layers;
}

Graph with_biases(Graph graph, const std::set<std::string>& but) {
  for (const LinearLayer& layer : linear_layers(graph)) {
    const std::string op = graph.nodes[layer.node].op;
    if (!layer.bias.empty() || op == "MatMul" || but.contains(layer.output)) continue;
    std::string name = layer.weight;
    const std::string ending = "weight";
    if (name.ends_with(ending)) name.replace(name.size() - ending.size(), ending.size(), "bias");
    if (name == layer.weight) name += "_bias";
    name = fresh_name(graph, name);
    graph.tensors[name] = at::zeros({weight_matrix(graph, layer).size(0)}, graph.tensor(layer.weight).options());
    graph.nodes[layer.node].inputs.resize(3);
    graph.nodes[layer.node].inputs[2] = name;
  }
  return graph;
}

at::Tensor weight_matrix(const Graph& graph, const LinearLayer& layer) {
  const at::Tensor& weight = graph.tensor(layer.weight);
  return inputs_first(graph.nodes[layer.node]) ? weight.t() : weight.reshape({weight.size(0), -1});
}

void set_weight_matrix(Graph& graph, const LinearLayer& layer, const at::Tensor& weight, const at::Tensor& bias) {
  at::Tensor& tensor = graph.tensors[layer.weight];
  const at::Tensor cast = weight.to(tensor.scalar_type());
  tensor = inputs_first(graph.nodes[layer.node]) ? cast.t().contiguous() : cast.reshape(tensor.sizes()).contiguous();
  if (!layer.bias.empty()) graph.tensors[layer.bias] = bias.to(tensor.scalar_type()).contiguous();
}

at::Tensor input_rows(const Graph& graph, const LinearLayer& layer, const at::Tensor& input, int64_t stride) {
  const Node& node = graph.nodes[layer.node];
  if (node.op != "Conv") return thinned(input.reshape({-1, input.size(-1)}), stride);
  const at::Tensor& weight = graph.tensor(layer.weight);
  const auto pads = node.integers("pads", {0, 0, 0, 0});
  const at::Tensor padded = at::constant_pad_nd(input, {pads[1], pads[3], pads[0], pads[2]});
  const at::Tensor patches = at::im2col(padded, {weight.size(2), weight.size(3)}, node.integers("dilations", {1, 1}),
                                        {0, 0}, node.integers("strides", {1, 1}));
  return thinned(patches.transpose(1, 2).reshape({-1, patches.size(1)}), stride);
}

at::Tensor output_rows(const Graph& graph, const LinearLayer& layer, const at::Tensor& output, int64_t stride) {
  if (graph.nodes[layer.node].op != "Conv") return thinned(output.reshape({-1, output.size(-1)}), stride);
  return thinned(output.movedim(1, -1).reshape({-1, output.size(1)}), stride);
}

}  // namespace pare
