#include "pare/analysis/scores.h"

#include <algorithm>

#include "pare/core/error.h"

namespace pare {

std::string score_value(const Graph& graph) {
  if (graph.outputs.empty()) throw Error(ErrorKind::shape, graph.name, "has no output");
  const std::string& output = graph.outputs[0].name;
  // From the end, where it nearly always is: a training asks at every step.
  const auto last = std::find_if(graph.nodes.rbegin(), graph.nodes.rend(), [&](const Node& node) {
    return std::find(node.outputs.begin(), node.outputs.end(), output) != node.outputs.end();
  });
  if (last == graph.nodes.rend() || !last->domain.empty()) return output;
  const bool probabilities = last->op == "Softmax" || last->op == "LogSoftmax" || last->op == "Sigmoid";
  return probabilities ? last->inputs.at(0) : output;
}

}  // namespace pare
