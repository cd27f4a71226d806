// Small pieces that passes share.
#pragma once

#include <set>
#include <string>

#include "pare/graph.h"

namespace pare {

std::set<std::string> output_names(const Graph& graph);

// The graph without the nodes of these indices, and without what only they needed.
Graph without_nodes(Graph graph, const std::set<size_t>& gone);

}  // namespace pare
