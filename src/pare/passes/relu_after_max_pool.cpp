#include "pare/passes/relu_after_max_pool.h"

#include "pare/passes/nodes.h"

namespace pare {

Graph relu_after_max_pool(Graph graph, const std::set<std::string>& kept) {
  const Usage usage = usage_of(graph);
  const auto outputs = output_names(graph);
  for (size_t r = 0; r < graph.nodes.size(); ++r) {
    Node& relu = graph.nodes[r];
    if (relu.op != "Relu" || !relu.domain.empty()) continue;
    const std::string between = relu.outputs[0];
    const auto readers = usage.consumers.find(between);
    if (readers == usage.consumers.end() || readers->second.size() != 1 || outputs.contains(between) ||
        kept.contains(between))
      continue;
    Node& pool = graph.nodes[readers->second[0]];
    if (pool.op != "MaxPool" || !pool.domain.empty() || pool.outputs.size() != 1 || pool.inputs[0] != between) continue;
    // The first of the two places now pools into `between`, the second rectifies it.
    std::swap(relu, pool);
    std::swap(relu.inputs, pool.inputs);
    std::swap(relu.outputs, pool.outputs);
  }
  return graph;
}

}  // namespace pare
