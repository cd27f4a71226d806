// Lowers canonical operators to the form of an older opset, the inverse of io/onnx/upgrade. pare's own markers are
// written out as standard operators.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pare/graph.h"

namespace pare {

struct LoweredGraph {
  Graph graph;
  int64_t opset = 0;                   // the target, or the smallest above it that can express every node
  std::vector<std::string> raised_by;  // what raised it, one sentence each; empty when it is the target
};

// `target` is 11 to 28, else Error{usage}. A subgraph stays in the opset of its file: when the target has another form
// of an operator in it, the whole model is written in the file's opset, or Error{unsupported} when that cannot be.
LoweredGraph lower(Graph graph, int64_t target);

}  // namespace pare
