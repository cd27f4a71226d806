// Types of all values of a graph, and the content of those that are fixed by shapes alone.
#pragma once

#include <map>
#include <string>

#include "pare/graph.h"
#include "pare/ops/op.h"

namespace pare {

struct Shapes {
  std::map<std::string, TensorType> types;  // a value whose type depends on data is absent
  TensorMap values;                         // small values that are known without data (shape arithmetic)
  // Why inference stopped at a node, by the name of its first output.
  std::map<std::string, std::string> unknown;
  std::map<std::string, Shape> assumed;  // inputs whose open extents analysis_shapes() chose, and what it took them for

  const TensorType* find(const std::string& value) const;
};

struct ShapeOptions {
  int64_t batch = 1;                    // for an open first extent, and others of its name
  int64_t open = 0;                     // for other open extents; 0 leaves them unknown
  std::map<std::string, Shape> inputs;  // extents of inputs, by name; override all the above
};

// Never throws for a node: a node that cannot be typed leaves its outputs out and says why in `unknown`.
Shapes infer_shapes(const Graph& graph, const ShapeOptions& options = {});

// The shapes that analyses of a graph stand on. A network for pictures, texts or sounds of any size is analysed at one
// size: open extents beyond the first of an input, which `options` do not give, are all taken for the first usual size
// under which most nodes can be typed. Results hold for that size; what is written stays open.
Shapes analysis_shapes(const Graph& graph, const ShapeOptions& options = {});

}  // namespace pare
