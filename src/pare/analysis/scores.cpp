#include "pare/analysis/scores.h"

#include "pare/core/error.h"

namespace pare {

std::string score_value(const Graph& graph) {
  if (graph.outputs.empty()) throw Error(ErrorKind::shape, graph.name, "has no output");
  const std::string& output = graph.outputs[0].name;
  const auto usage = usage_of(graph);
  const auto made = usage.producer.find(output);
  if (made == usage.producer.end()) return output;
  const Node& last = graph.nodes[made->second];
  const bool probabilities =
      last.domain.empty() && (last.op == "Softmax" || last.op == "LogSoftmax" || last.op == "Sigmoid");
  return probabilities ? last.inputs.at(0) : output;
}

}  // namespace pare
