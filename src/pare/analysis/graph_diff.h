// What changed from one graph to another, node by node.
//
// Nodes are paired in their order: the common subsequence of most weight, where two nodes of the same operator weigh
// something and of the same name more. So a folded batch norm is one node removed, and a network whose exporter renamed
// everything still lines up with the original.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "pare/core/graph.h"

namespace pare {

enum class NodeChange { same, changed, added, removed };
std::string_view to_string(NodeChange change);

// One side of a pair.
struct NodeSide {
  size_t index = 0;  // into graph.nodes
  std::string name;
  std::string output;  // type of its first output
  int64_t parameters = 0;
  int64_t macs = 0;
};

struct NodeDiff {
  NodeChange change = NodeChange::same;
  std::string op;
  std::optional<NodeSide> a;
  std::optional<NodeSide> b;
  std::string what;  // what changed: "attributes, inputs, output shape, weights"
  // ‖W_a − W_b‖ / ‖W_a‖ over the node's constants; NaN where it has none or their shapes differ, infinite where one has
  // a number and the other none.
  double weight_distance = std::numeric_limits<double>::quiet_NaN();
};

// A graph input of another type or extents, on both sides: "float32 ?x3x32x32"; "-" where there is none.
struct InputDiff {
  std::string name;
  std::string a;
  std::string b;
};

struct GraphDiff {
  std::vector<NodeDiff> nodes;
  std::vector<InputDiff> inputs;  // those that changed
  size_t count(NodeChange change) const;
};

GraphDiff diff_graphs(const Graph& a, const Graph& b);

}  // namespace pare
