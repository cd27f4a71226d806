#include "pare/analysis/cost.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "pare/io/onnx/subgraph.h"
#include "pare/ops/dtype.h"
#include "pare/ops/op.h"

namespace pare {

namespace {

// Floating-point scalars (a clip bound, a scale) are constants of the computation, not parameters.
bool is_parameter(const at::Tensor& tensor) { return tensor.is_floating_point() && tensor.dim() > 0; }

// Integers that stand for floats count as those; their scales do not.
bool is_parameter(const Node& node, size_t input, const at::Tensor& tensor) {
  if (node.op == "DequantizeLinear" && node.domain.empty()) return input == 0 && tensor.dim() > 0;
  return is_parameter(tensor);
}

// Of all tensors as a file holds them: types that a wider one carries take their own bits.
int64_t bytes_of(const Graph& graph) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : graph.tensors) {
    const auto carried = graph.carried.find(name);
    const auto type = carried == graph.carried.end() ? std::nullopt : carried_type(carried->second);
    bytes += type ? (tensor.numel() * type->bits + 7) / 8 : static_cast<int64_t>(tensor.nbytes());
  }
  return bytes;
}

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

// What subgraphs hold and what they read of tensors around them belongs to their node; their MACs are not known.
void add_subgraphs(const Graph& graph, const Node& node, std::set<std::string_view>& counted, NodeCost& row,
                   ModelCost& total) {
  if (!has_subgraph(node)) return;
  const SubgraphContent inside = content_of_subgraphs(node);
  row.parameters += inside.parameters;
  total.bytes += inside.bytes;
  for (const auto& name : node.captures) {
    const auto found = graph.tensors.find(name);
    if (found != graph.tensors.end() && is_parameter(found->second) && counted.insert(found->first).second)
      row.parameters += found->second.numel();
  }
  const bool multiplies = std::ranges::any_of(inside.operators, [](const auto& entry) {
    Node one{.op = entry.second, .domain = entry.first};
    return find_op(one) == nullptr || traits_of(one).kind == OpKind::linear;
  });
  if (multiplies || row.parameters > 0) total.complete = false;
}

// Of all inputs, for one sample; none where one of them is not known.
std::vector<std::vector<int64_t>> sample_extents(const Graph& graph, const Shapes& shapes, int64_t samples) {
  std::vector<std::vector<int64_t>> extents;
  for (const auto& input : graph.inputs) {
    const TensorType* type = shapes.find(input.name);
    if (type == nullptr) return {};
    auto& dims = extents.emplace_back(type->dims.begin(), type->dims.end());
    if (dims.size() > 1 && dims[0] == samples) dims[0] = 1;
  }
  return extents;
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
      if (found == graph.tensors.end() || !is_parameter(node, i, found->second) || !counted.insert(found->first).second)
        continue;
      if (traits_of(node).statistics.contains(i))
        total.statistics += found->second.numel();
      else
        row.parameters += found->second.numel();
    }
    add_subgraphs(graph, node, counted, row, total);
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
  total.bytes += bytes_of(graph);
  total.inputs = sample_extents(graph, shapes, samples);
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
