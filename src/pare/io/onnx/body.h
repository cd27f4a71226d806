// The body of an If as a graph of its own: what a Graph keeps as bytes, read when it is known which branch is taken.
#pragma once

#include <map>
#include <set>
#include <string>

#include "pare/graph.h"

namespace pare {

// The subgraph `attribute` of a node in canonical form. Its inputs are the values of `graph` that it reads, of these
// types; everything that it makes has a name after `prefix` that is not among `taken`, and its nodes too. Throws Error
// as read_onnx does.
Graph read_body(const Graph& graph, const Node& node, const std::string& attribute,
                const std::map<std::string, at::ScalarType>& types, const std::set<std::string>& taken);

// Every name of a value or a node in the graph and its subgraphs.
std::set<std::string> all_names(const Graph& graph);

}  // namespace pare
