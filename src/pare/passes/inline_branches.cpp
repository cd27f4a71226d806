#include "pare/passes/inline_branches.h"

#include <ATen/ATen.h>

#include "pare/analysis/shapes.h"
#include "pare/error.h"
#include "pare/io/onnx/body.h"

namespace pare {

namespace {

bool is_decided(const Graph& graph, const Node& node) {
  if (node.op != "If" || !node.domain.empty() || node.inputs.size() != 1 || !graph.is_constant(node.inputs[0]))
    return false;
  const at::Tensor& condition = graph.tensor(node.inputs[0]);
  return condition.numel() == 1 && condition.scalar_type() == at::kBool;
}

// The element types of values do not depend on extents: any will do.
std::map<std::string, at::ScalarType> element_types(const Graph& graph) {
  std::map<std::string, at::ScalarType> types;
  for (const auto& input : graph.inputs) types[input.name] = input.dtype;
  for (const auto& [name, type] : analysis_shapes(graph).types) types[name] = type.dtype;
  return types;
}

}  // namespace

std::optional<Graph> inline_branches(const Graph& original) {
  if (std::ranges::none_of(original.nodes, [&](const Node& node) { return is_decided(original, node); }))
    return std::nullopt;
  Graph graph = original;
  graph.nodes.clear();
  bool changed = false;
  const auto types = element_types(original);
  auto taken = all_names(original);
  for (const auto& node : original.nodes) {
    std::optional<Graph> body;
    try {
      if (is_decided(original, node))
        body = read_body(original, node, original.tensor(node.inputs[0]).item<bool>() ? "then_branch" : "else_branch",
                         types, taken);
    } catch (const Error&) {  // it stays
    }
    if (!body || body->outputs.size() < node.outputs.size()) {
      graph.nodes.push_back(node);
      continue;
    }
    changed = true;
    taken.merge(all_names(*body));
    graph.tensors.insert(body->tensors.begin(), body->tensors.end());
    graph.nodes.insert(graph.nodes.end(), body->nodes.begin(), body->nodes.end());
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (!node.outputs[i].empty())
        graph.nodes.push_back({.name = fresh_name(graph, node.name + "/output_" + std::to_string(i)),
                               .op = "Identity",
                               .inputs = {body->outputs[i].name},
                               .outputs = {node.outputs[i]}});
  }
  return changed ? std::optional(std::move(graph)) : std::nullopt;
}

}  // namespace pare
