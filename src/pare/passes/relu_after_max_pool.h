// MaxPool(Relu(x)) = Relu(MaxPool(x)): the same values and the same gradients, with a fraction of the elements to
// rectify.
#pragma once

#include <set>
#include <string>

#include "pare/graph.h"

namespace pare {

// Swaps a Relu with the MaxPool that alone reads it, unless its output is in `kept` (somebody looks at it).
Graph relu_after_max_pool(Graph graph, const std::set<std::string>& kept = {});

}  // namespace pare
