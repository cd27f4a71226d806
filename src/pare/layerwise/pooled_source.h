// Layers that read an average over places.
#pragma once

#include <cstddef>
#include <optional>

#include "pare/graph.h"

namespace pare {

// Where the layer reads, perhaps through operators that only reshape it, the average over all places of a value
// [N, C, …]: the node that takes the average. A linear layer may then as well be applied at each place and averaged.
std::optional<size_t> pool_before(const Graph& graph, const Usage& usage, size_t layer);

}  // namespace pare
