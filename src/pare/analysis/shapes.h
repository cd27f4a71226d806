// Types of all values of a graph, and the content of those that are fixed by shapes alone.
#pragma once

#include <map>
#include <string>

#include "pare/core/graph.h"
#include "pare/ops/op.h"

namespace pare {

struct Shapes {
  std::map<std::string, TensorType> types;  // a value whose type depends on data is absent
  TensorMap values;                         // small values that are known without data (shape arithmetic)
  // Why inference stopped at a node, by the name of its first output.
  std::map<std::string, std::string> unknown;

  const TensorType* find(const std::string& value) const;
};

struct ShapeOptions {
  int64_t batch = 1;                    // for an open first extent
  int64_t open = 0;                     // for other open extents; 0 leaves them unknown
  std::map<std::string, Shape> inputs;  // extents of inputs, by name; override all the above
};

// Never throws for a node: a node that cannot be typed leaves its outputs out and says why in `unknown`.
Shapes infer_shapes(const Graph& graph, const ShapeOptions& options = {});

}  // namespace pare
