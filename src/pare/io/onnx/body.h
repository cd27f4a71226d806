// The subgraph of an If, a Loop or a Scan as a graph of its own: what a Graph keeps as bytes, read when it is known
// which branch is taken, or what it is run on.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>

#include "pare/graph.h"

namespace pare {

// The subgraph `attribute` of a node in canonical form. Its inputs are the values of `graph` that it reads, of these
// types; everything that it makes has a name after `prefix` that is not among `taken`, and its nodes too. Throws Error
// as read_onnx does.
Graph read_body(const Graph& graph, const Node& node, const std::string& attribute,
                const std::map<std::string, at::ScalarType>& types, const std::set<std::string>& taken);

// The subgraph to be run: its inputs are its own and then node.captures, of these types and of any shape.
Graph read_typed_body(const Graph& graph, const Node& node, const std::string& attribute,
                      std::span<const at::ScalarType> types);

// Every name of a value or a node in the graph and its subgraphs.
std::set<std::string> all_names(const Graph& graph);

}  // namespace pare
