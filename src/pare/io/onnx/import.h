// The parts of reading a model that work on the Graph alone, between parsing and checking.
#pragma once

#include <set>
#include <string>

#include "pare/graph.h"

namespace pare {

// Constant nodes become tensors of the graph.
Graph absorb_constants(Graph graph);

// Consumers of an Identity of a tensor read the tensor itself; the Identity goes, unless a graph output or a subgraph
// needs its name. The nodes must be sorted.
Graph bypass_identities(Graph graph);

// Error{format} unless every value is made once.
void check_made_once(const Graph& graph);

// Error{format} unless every subgraph finds what it reads from outside.
void check_captures(const Graph& graph);

// Erases those of the named tensors that no node, subgraph or output reads.
void drop_unread(Graph& graph, const std::set<std::string>& names);

}  // namespace pare
