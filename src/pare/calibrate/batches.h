// Images in batches: as many at once as memory allows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "pare/graph.h"

namespace pare {

// How many images to run at once so that all values of the graph together, as a backward pass keeps them, stay within
// half a gigabyte of floats: at least one, at most 256.
int64_t images_at_once(const Graph& graph);

// The tensors, which have the same first extent, cut along it.
std::vector<std::vector<at::Tensor>> in_batches(const std::vector<at::Tensor>& tensors, int64_t at_once);

}  // namespace pare
