// A graph run one node at a time, for methods that change a node before they run it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "pare/core/graph.h"

namespace pare {

// The inputs as they are, and one batch; or those of a graph that fixes its batch (exec/fixed_batch.h) as so many
// batches, the last image repeated where they do not come out even.
std::vector<at::Tensor> in_whole_batches(const Graph& graph, const std::vector<at::Tensor>& inputs, int64_t& batches);

// Outputs of a node from `values` of the images of all batches, which it takes one after the other. Error{shape} names
// the node.
std::vector<at::Tensor> evaluate_node(const Graph& graph, const Node& node, const TensorMap& values, int64_t batches);

}  // namespace pare
