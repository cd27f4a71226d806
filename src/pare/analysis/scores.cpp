#include "pare/analysis/scores.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "pare/error.h"
#include "pare/ops/op.h"

namespace pare {

std::string score_value(const Graph& graph) {
  if (graph.outputs.empty()) throw Error(ErrorKind::shape, graph.name, "has no output");
  const std::string& output = graph.outputs[0].name;
  std::string value = output;
  // From the end, where it nearly always is: a training asks at every step.
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (std::find(node->outputs.begin(), node->outputs.end(), value) == node->outputs.end()) continue;
    if (!node->domain.empty() || node->inputs.empty()) break;
    const OpTraits& traits = traits_of(*node);
    if (traits.probabilities) return node->inputs[0];
    if (traits.kind != OpKind::reshape && traits.kind != OpKind::same) break;
    value = node->inputs[0];
  }
  return output;
}

Graph scores_only(Graph graph) {
  const std::string scores = score_value(graph);
  graph.outputs.resize(1);
  graph.outputs[0].name = scores;
  return remove_unused(std::move(graph));
}

at::Tensor score_rows(const at::Tensor& scores) {
  if (scores.dim() == 0) throw Error(ErrorKind::shape, "scores", "are a single number, expected a row for each image");
  for (int64_t axis = 2; axis < scores.dim(); ++axis)
    if (scores.size(axis) != 1)
      throw Error(ErrorKind::shape, "scores", "are {} for each image, expected one row of classes",
                  fmt::join(scores.sizes().slice(1), "x"));
  return scores.dim() == 1 ? scores.unsqueeze(1) : scores.flatten(1);
}

}  // namespace pare
