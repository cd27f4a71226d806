// What a graph costs: parameters, multiply-accumulates, bytes; in all and node by node.
#pragma once

#include <string>
#include <vector>

#include "pare/analysis/shapes.h"
#include "pare/core/graph.h"

namespace pare {

struct NodeCost {
  std::string name;
  std::string op;
  std::string output;      // type of the first output, "?" when not known
  int64_t parameters = 0;  // of tensors that this node reads first
  int64_t macs = 0;
  int64_t flops = 0;
};

struct ModelCost {
  int64_t parameters = 0;  // elements of floating-point tensors, running statistics not counted
  int64_t statistics = 0;  // running means and variances
  int64_t macs = 0;        // for one sample, also where the file fixes a batch of several
  int64_t flops = 0;
  int64_t bytes = 0;     // of all tensors
  bool complete = true;  // false when some node's shapes are not known, so that MACs are a lower bound
  std::vector<NodeCost> nodes;
};

ModelCost cost_of(const Graph& graph, const Shapes& shapes);
ModelCost cost_of(const Graph& graph);  // with shapes for a batch of one

// Samples in one run: the first extent of the first input where that is fixed, else `batch`. An input of fewer than two
// axes is one sample.
int64_t batch_of(const Graph& graph, int64_t batch = 1);

}  // namespace pare
