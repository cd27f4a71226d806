#include "pare/exec/index_range.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>
#include <vector>

#include "pare/ops/op.h"

namespace pare {

namespace {

// Do the numbers of input i come out again, elsewhere perhaps?
bool passes_on(const Node& node, size_t i) {
  const OpKind kind = kind_of(node);
  return kind == OpKind::join || (i == 0 && (kind == OpKind::same || moves_elements(kind)));
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
      bool passed = false;
      for (size_t i = 0; i < node.inputs.size(); ++i) passed = passed || (node.inputs[i] == now && passes_on(node, i));
      if (!passed) continue;
      for (const std::string& output : node.outputs)
        if (seen.insert(output).second) open.push_back(output);
    }
  }
  return limit;
}

}  // namespace pare
