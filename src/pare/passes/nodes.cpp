#include "pare/passes/nodes.h"

namespace pare {

std::set<std::string> output_names(const Graph& graph) {
  std::set<std::string> names;
  for (const auto& output : graph.outputs) names.insert(output.name);
  return names;
}

Graph without_nodes(Graph graph, const std::set<size_t>& gone) {
  std::vector<Node> kept;
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (!gone.contains(n)) kept.push_back(std::move(graph.nodes[n]));
  graph.nodes = std::move(kept);
  return remove_unused(std::move(graph));
}

}  // namespace pare
