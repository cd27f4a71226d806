// Which value of a network holds the class scores. Pure functions; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "pare/graph.h"

namespace pare {

// The first output, or what a final Softmax, LogSoftmax or Sigmoid reads, whether it is reshaped afterwards or not.
// Losses, thresholds and attributions are those of scores; the network itself keeps its last operators. Error{shape}
// when it has no output.
std::string score_value(const Graph& graph);

// The graph with one output, the scores, and nothing that they do not need.
Graph scores_only(Graph graph);

// [N, K]: a row for each image, of one score where a network has only one. Error{shape} for a single number and for
// scores at several places of an image.
at::Tensor score_rows(const at::Tensor& scores);

}  // namespace pare
