// What lies inside the subgraphs (the bodies of If, Loop and Scan) that a Graph keeps as bytes.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pare/graph.h"

namespace pare {

// ONNX's own domain has two names; here it has none.
inline std::string plain_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

// Has the node attributes that are graphs (or types), kept as bytes?
bool has_subgraph(const Node& node);

struct SubgraphContent {
  std::set<std::string> reads;  // values made neither inside nor given as inputs: they come from outside
  std::set<std::string> names;  // every value name inside
  std::set<std::pair<std::string, std::string>> operators;  // (domain, op), also of nested subgraphs
  bool external_data = false;                               // some tensor inside keeps its data in a file
  int64_t parameters = 0;  // elements of floating-point tensors that are no scalars, as far as the file has them
  int64_t bytes = 0;       // of all tensors
};

// Everything inside the subgraph attributes of a node; empty when it has none.
SubgraphContent content_of_subgraphs(const Node& node);

}  // namespace pare
