#include "pare/analysis/cost.h"

#include <ATen/ATen.h>

#include <set>

#include "pare/ops/op.h"

namespace pare {

namespace {

// Floating-point scalars (a clip bound, a scale) are constants of the computation, not parameters.
bool is_parameter(const at::Tensor& tensor) { return tensor.is_floating_point() && tensor.dim() > 0; }

Cost node_cost(const Node& node, const OpDef& op, const Shapes& shapes, bool& complete) {
  std::vector<TensorType> inputs(node.inputs.size());
  std::vector<TensorType> outputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!node.has_input(i)) continue;
    const TensorType* type = shapes.find(node.inputs[i]);
    if (type == nullptr) return complete = false, Cost{};
    inputs[i] = *type;
  }
  for (const auto& output : node.outputs) {
    const TensorType* type = shapes.find(output);
    if (type == nullptr && !output.empty()) return complete = false, Cost{};
    outputs.push_back(type == nullptr ? TensorType{} : *type);
  }
  return op.cost({node, inputs, outputs});
}

}  // namespace

ModelCost cost_of(const Graph& graph, const Shapes& shapes) {
  ModelCost total;
  const int64_t samples = batch_of(graph);
  std::set<std::string_view> counted;
  for (const auto& node : graph.nodes) {
    NodeCost row{.name = node.name, .op = node.op, .output = "?"};
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto found = graph.tensors.find(node.inputs[i]);
      if (found == graph.tensors.end() || !is_parameter(found->second) || !counted.insert(found->first).second)
        continue;
      if (traits_of(node).statistics.contains(i))
        total.statistics += found->second.numel();
      else
        row.parameters += found->second.numel();
    }
    if (const TensorType* type = node.outputs.empty() ? nullptr : shapes.find(node.outputs[0]))
      row.output = to_string(*type);
    if (const OpDef* op = find_op(node)) {
      const Cost cost = node_cost(node, *op, shapes, total.complete);
      row.macs = cost.macs / samples;
      row.flops = cost.flops / samples;
    } else {
      total.complete = false;
    }
    total.parameters += row.parameters;
    total.macs += row.macs;
    total.flops += row.flops;
    total.nodes.push_back(std::move(row));
  }
  for (const auto& [name, tensor] : graph.tensors) total.bytes += static_cast<int64_t>(tensor.nbytes());
  return total;
}

ModelCost cost_of(const Graph& graph) { return cost_of(graph, analysis_shapes(graph)); }

int64_t batch_of(const Graph& graph, int64_t batch) {
  if (graph.inputs.empty() || !graph.inputs.front().dims) return batch;
  const auto& dims = *graph.inputs.front().dims;
  if (dims.empty() || (dims.size() == 1 && dims[0].fixed())) return 1;
  return dims[0].fixed() ? std::max<int64_t>(dims[0].size, 1) : batch;
}

}  // namespace pare
