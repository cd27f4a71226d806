// QuantizeLinear and DequantizeLinear around activations: x̂ = scale · (saturate(round(x / scale) + zero) − zero).
#pragma once

#include <map>
#include <string>

#include "pare/graph.h"
#include "pare/quantize/plan.h"
#include "pare/quantize/ranges.h"

namespace pare {

struct ActivationGrid {
  float scale = 1;
  int64_t zero = 0;
  bool symmetric = false;  // int8, else uint8
};
// Zero is one of its numbers. A range that is zero alone has the scale 1.
ActivationGrid activation_grid(const ValueRange& range, bool symmetric);

// The graph with a pair of them after every value of the plan, which all its readers read; values keep their names. A
// value after a Clip ranges no further than the Clip lets through.
struct QuantizedActivations {
  Graph graph;
  std::map<std::string, ActivationGrid> grids;  // by value
  std::map<std::string, std::string> names;     // of what readers read now, by value
};
QuantizedActivations quantize_activations(const Graph& graph, const QuantizationPlan& plan,
                                          const std::map<std::string, ValueRange>& ranges, bool symmetric);

}  // namespace pare
