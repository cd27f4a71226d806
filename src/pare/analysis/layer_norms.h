// Layer norms that a file has written out, as exporters of older opsets do:
//
//   m = ReduceMean(x)   d = Sub(x, m)   v = ReduceMean(Pow(d, 2) or Mul(d, d))   y = Div(d, Sqrt(Add(v, ε)))
//
// and perhaps Mul by a scale, Add of a bias after it. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "pare/graph.h"

namespace pare {

// Nodes by index.
struct LayerNorm {
  size_t mean = 0;      // ReduceMean of x
  size_t variance = 0;  // ReduceMean of the squares
  size_t last = 0;      // what makes the result: the bias, the scale, or the Div
};

std::vector<LayerNorm> find_layer_norms(const Graph& graph);

}  // namespace pare
