#include "pare/exec/index_range.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>
#include <vector>

namespace pare {

namespace {

bool passes_integers_on(const Node& node) {
  static const std::set<std::string> operators = {"Cast",      "Identity", "Unsqueeze", "Squeeze", "Reshape", "Flatten",
                                                  "Transpose", "Expand",   "Tile",      "Slice",   "Concat",  "Split"};
  return node.domain.empty() && operators.contains(node.op);
}

// The extent that the node indexes by its input i, if it does so.
std::optional<int64_t> extent_indexed_by(const Graph& graph, const Node& node, size_t i) {
  if (!node.domain.empty()) return std::nullopt;
  if (node.op == "Gather" && i == 1 && graph.is_constant(node.inputs[0])) {
    const at::Tensor& table = graph.tensor(node.inputs[0]);
    const int64_t axis = node.integer("axis", 0);
    if (axis >= -table.dim() && axis < table.dim()) return table.size(axis);
  }
  if (node.op == "OneHot" && i == 0 && graph.is_constant(node.inputs[1]) && graph.tensor(node.inputs[1]).numel() == 1)
    return graph.tensor(node.inputs[1]).item<int64_t>();
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> index_limit(const Graph& graph, const std::string& value) {
  const Usage usage = usage_of(graph);
  std::optional<int64_t> limit;
  std::vector<std::string> open = {value};
  std::set<std::string> seen = {value};
  while (!open.empty()) {
    const std::string now = open.back();
    open.pop_back();
    const auto readers = usage.consumers.find(now);
    if (readers == usage.consumers.end()) continue;
    for (const size_t n : readers->second) {
      const Node& node = graph.nodes[n];
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (node.inputs[i] == now)
          if (const auto extent = extent_indexed_by(graph, node, i)) limit = std::min(limit.value_or(*extent), *extent);
      if (!passes_integers_on(node)) continue;
      for (const std::string& output : node.outputs)
        if (seen.insert(output).second) open.push_back(output);
    }
  }
  return limit;
}

}  // namespace pare
