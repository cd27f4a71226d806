#include "pare/passes/for_inference.h"

#include <ATen/ATen.h>

#include <set>

#include "pare/ops/common.h"
#include "pare/ops/onednn.h"
#include "pare/ops/op.h"
#include "pare/passes/fold_batch_norm.h"
#include "pare/passes/nodes.h"
#include "pare/passes/relu_after_max_pool.h"

namespace pare {

namespace {

bool is_plain_linear(const Graph& graph, const Node& node) {
  if (node.op != "Gemm" || !node.domain.empty() || node.inputs.size() < 2 || !graph.is_constant(node.inputs[1]))
    return false;
  const at::Tensor& weight = graph.tensor(node.inputs[1]);
  if (weight.dim() != 2 || weight.scalar_type() != at::kFloat || weight.numel() == 0) return false;
  if (node.has_input(2)) {
    if (!graph.is_constant(node.inputs[2])) return false;
    const at::Tensor& bias = graph.tensor(node.inputs[2]);
    if (bias.dim() != 1 || bias.size(0) != weight.size(0)) return false;
  }
  return node.integer("transA", 0) == 0 && node.integer("transB", 0) != 0 && node.real("alpha", 1) == 1 &&
         node.real("beta", 1) == 1;
}

// Gemm, or Gemm and the Relu that alone reads it, becomes one Linear.
Graph pack_linear_layers(Graph graph) {
  const Usage usage = usage_of(graph);
  const auto outputs = output_names(graph);
  std::set<size_t> gone;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node& node = graph.nodes[n];
    if (!is_plain_linear(graph, node)) continue;
    const at::Tensor weight = graph.tensor(node.inputs[1]);
    const auto readers = usage.consumers.find(node.outputs[0]);
    const bool relu = !outputs.contains(node.outputs[0]) && readers != usage.consumers.end() &&
                      readers->second.size() == 1 && graph.nodes[readers->second[0]].op == "Relu" &&
                      graph.nodes[readers->second[0]].domain.empty();
    node.domain = "pare";
    node.op = "Linear";
    node.attributes = {{"in", weight.size(1)}, {"out", weight.size(0)}, {"relu", int64_t{relu}}};
    node.inputs[1] = fresh_name(graph, node.inputs[1] + "_packed");
    graph.tensors[node.inputs[1]] = pack_linear_weight(weight);
    if (!relu) continue;
    node.outputs[0] = graph.nodes[readers->second[0]].outputs[0];
    gone.insert(readers->second[0]);
  }
  return without_nodes(std::move(graph), gone);
}

// Weights that are stored as integers, as floats once and for all.
Graph dequantize_constants(Graph graph) {
  std::set<size_t> gone;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.op != "DequantizeLinear" || !node.domain.empty()) continue;
    std::vector<at::Tensor> inputs;
    for (const auto& input : node.inputs) {
      const auto found = graph.tensors.find(input);
      if (!input.empty() && found == graph.tensors.end()) break;
      inputs.push_back(input.empty() ? at::Tensor() : found->second);
    }
    if (inputs.size() != node.inputs.size()) continue;
    graph.tensors[node.outputs[0]] = evaluate(require_op(node), {.node = node, .inputs = inputs}).front();
    gone.insert(n);
  }
  return without_nodes(std::move(graph), gone);
}

}  // namespace

Graph for_inference(const Graph& graph) {
  Graph result = relu_after_max_pool(fold_batch_norm(dequantize_constants(graph)));
  if (onednn_available()) result = pack_linear_layers(std::move(result));
  for (const auto& node : result.nodes) {
    if (node.op != "Conv" || !node.domain.empty() || node.inputs.size() < 2) continue;
    const auto weight = result.tensors.find(node.inputs[1]);
    if (weight != result.tensors.end() && weight->second.dim() == 4) weight->second = channels_last(weight->second);
  }
  return result;
}

}  // namespace pare
