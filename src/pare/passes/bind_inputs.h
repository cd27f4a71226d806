// Inputs that are always the same become constants: a sampling rate that decides a branch, a switch. What depends on
// them alone is then folded, and the branch that is taken is open to everything else (passes/simplify.h).
#pragma once

#include <string>
#include <vector>

#include "pare/graph.h"

namespace pare {

// `values` are NAME=NUMBER; all elements of the input get the number. Error{usage} for an input that is not there, has
// open extents, or whose type does not hold the number.
Graph bind_inputs(const Graph& graph, const std::vector<std::string>& values);

}  // namespace pare
