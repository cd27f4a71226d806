// What a model is: its cost, in all and node by node, and which of its channels can be removed or may change places.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pare/graph.h"

namespace pare {

struct NodeCost {
  std::string name;
  std::string op;
  std::string output;      // type of the first output, "?" when not known
  int64_t parameters = 0;  // of tensors that this node or its subgraphs read first, and of those inside them
  int64_t macs = 0;
  int64_t flops = 0;
};

struct ModelCost {
  int64_t parameters = 0;  // elements of floating-point tensors, running statistics not counted
  int64_t statistics = 0;  // running means and variances
  int64_t macs = 0;        // for one sample, also where the file fixes a batch of several
  int64_t flops = 0;
  int64_t bytes = 0;     // of all tensors
  bool complete = true;  // false when some node's shapes are not known, or it has layers in subgraphs, so that MACs
                         // are a lower bound
  std::vector<NodeCost> nodes;
  std::vector<std::vector<int64_t>> inputs;  // extents of one sample, for which MACs were counted
};

ModelCost cost_of(const Graph& graph);  // with shapes for a batch of one

// Samples in one run: the first extent of the first input where that is fixed, else `batch`. An input of fewer than two
// axes is one sample.
int64_t batch_of(const Graph& graph, int64_t batch = 1);

// Channels that layers make together: one layer's output, or a residual stream with all the layers that add to it.
struct GroupSummary {
  std::string name;  // of the first node that makes them
  int64_t channels = 0;
  int64_t removable = 0;
  std::string reason;  // why the others are not, for the first of them
  int64_t permutable = 0;
  int64_t fixed = 0;   // made by layers, and may not change places
  int64_t blocks = 0;  // within which the permutable ones move; 0: they move freely
  std::string fixed_reason;
  std::vector<std::string> producers;  // nodes
  std::vector<std::string> consumers;
};

struct Inspection {
  ModelCost cost;
  std::vector<GroupSummary> groups;
  std::map<std::string, std::string> unknown_shapes;  // values whose shape is not known without data, and why
};

Inspection inspect(const Graph& graph);

}  // namespace pare
