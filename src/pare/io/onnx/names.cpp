#include "pare/io/onnx/names.h"

#include "pare/io/onnx/subgraph.h"

namespace pare {

FreeNames::FreeNames(const Graph& graph) {
  for (const auto& [name, tensor] : graph.tensors) take(name);
  for (const auto& input : graph.inputs) take(input.name);
  for (const auto& output : graph.outputs) take(output.name);
  for (const auto& node : graph.nodes) {
    take(node.name);
    for (const auto& name : node.inputs) take(name);
    for (const auto& name : node.outputs) take(name);
    const auto content = content_of_subgraphs(node);
    for (const auto& name : content.names) take(name);
    for (const auto& name : content.reads) take(name);
  }
}

std::string FreeNames::fresh(const std::string& base) {
  if (take(base)) return base;
  for (int& i = next_[base];;) {
    std::string name = base + "_" + std::to_string(++i);
    if (take(name)) return name;
  }
}

}  // namespace pare
