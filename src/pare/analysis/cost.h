// The cost of a graph whose shapes are known already.
#pragma once

#include "pare/analysis/shapes.h"
#include "pare/graph.h"
#include "pare/inspect.h"  // IWYU pragma: export

namespace pare {

ModelCost cost_of(const Graph& graph, const Shapes& shapes);

}  // namespace pare
