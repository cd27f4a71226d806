// An If whose condition is a constant of the graph (folded before, where it follows from shapes) is its branch: the
// nodes of the branch take its place. Exporters leave such nodes where a Squeeze may or may not have something to do,
// and nothing passes one that stays.
#pragma once

#include <optional>

#include "pare/graph.h"

namespace pare {

// Nothing when no If is decided. One whose branch cannot be read stays as it is.
std::optional<Graph> inline_branches(const Graph& graph);

}  // namespace pare
