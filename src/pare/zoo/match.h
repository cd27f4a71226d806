// Puts the tensors of a checkpoint into a graph by name.
//
// A graph's state is its floating-point tensors with at least one axis (a constant such as a dropout ratio has none).
// A checkpoint's key fits a name of the state when they are equal after taking off the prefix under which most keys fit
// (`module.` of DataParallel, or any other), directly or by an alias of the graph's architecture (zoo/zoo.h). Weights
// of matrix products over tokens lie [inputs, outputs] in a graph of the zoo and [outputs, inputs] in checkpoints.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "pare/graph.h"

namespace pare {

using WeightList = std::vector<std::pair<std::string, at::Tensor>>;  // read_weights(path).tensors, say

struct MatchOptions {
  // Tensors that the graph has no place for are ignored instead of refused. (Refused by default: a bias without a place
  // would change what the network computes.)
  bool allow_unexpected = false;
};

struct MatchReport {
  std::string prefix;                                        // taken off every key
  std::vector<std::pair<std::string, std::string>> matched;  // key in the checkpoint, name in the graph
  std::vector<std::string> ignored;                          // keys without a place: num_batches_tracked, counters
};

// The graph with the checkpoint's values, in the graph's types.
// Error{format}: names are missing or unexpected; the message lists them, with the nearest unexpected key for each
// missing name. Error{shape}: a tensor has another shape; the message hints at `width` or `classes` where one would
// fit.
Graph with_weights(const Graph& graph, const WeightList& weights, MatchReport& report,
                   const MatchOptions& options = {});

// The names of the graph's state, in its order.
std::vector<std::string> state_names(const Graph& graph);
// A tensor of the state as checkpoints hold it.
at::Tensor in_state(const Graph& graph, const std::string& name);

}  // namespace pare
