// A graph whose file fixes the batch: other numbers of images are run a batch at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "pare/graph.h"

namespace pare {

// The first extent that all inputs of the graph have in common and that its file fixes; 0 where there is none.
int64_t fixed_batch(const Graph& graph);

// The batch to run these inputs in, one after the other; 0: all at once, as the graph takes them or refuses them.
int64_t piece_of_fixed_batch(const Graph& graph, std::span<const at::Tensor> inputs);

// The inputs cut into batches, the last image repeated where they do not come out even.
std::vector<std::vector<at::Tensor>> in_fixed_batches(std::span<const at::Tensor> inputs, int64_t batch);

// One value of all batches: put together along its first axis, and without what belongs to repeated images.
at::Tensor joined_batches(const std::vector<at::Tensor>& parts, int64_t batch, int64_t images);

}  // namespace pare
