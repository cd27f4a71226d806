// What is done to every graph as it is loaded: constants are folded, also those that follow from shapes alone (the
// shape arithmetic that exporters leave behind), an If that they decide becomes its branch, and nodes that do nothing
// go.
#pragma once

#include "pare/graph.h"

namespace pare {

// The function is unchanged for every input the original graph accepts.
Graph simplify(const Graph& graph);

}  // namespace pare
