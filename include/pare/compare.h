// Do two models compute the same, and what changed from one to the other?
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/samples.h"

namespace pare {

class OptionVisitor;

// |found − expected| relative to the largest |expected| of a tensor, and the element-wise test
// |found − expected| ≤ absolute + relative·|expected|.
struct Difference {
  std::string name;
  double largest = 0;  // largest |found − expected|
  double relative_to_largest = 0;
  int64_t outside = 0;  // elements that fail the element-wise test
  int64_t nan = 0;      // elements that are NaN in both
  int64_t elements = 0;
  std::string problem;  // types or shapes that differ; empty when they agree
  bool ok() const { return problem.empty() && outside == 0; }
};

struct Tolerance {
  double relative = 1e-3;
  double absolute = 1e-5;
};

// NaN equals NaN, infinities equal themselves.
Difference compare_tensors(const std::string& name, const at::Tensor& found, const at::Tensor& expected,
                           const Tolerance& tolerance);

struct VerifyOptions {
  Tolerance tolerance;
  int64_t samples = 4;  // random ones, where none are given
  uint64_t seed = 0;

  void describe(OptionVisitor& options);  // all but the seed
};

struct Verification {
  std::vector<Difference> outputs;  // of the first model: the largest differences of all samples
  bool same() const;
};

// Outputs of b against those of a on the same inputs, matched by place. Models that cannot be compared (other numbers
// of inputs or outputs, or inputs that b does not take) are not the same, and every output says why.
Verification verify(const Graph& a, const Graph& b, const Samples& samples, const VerifyOptions& options = {},
                    Observer& observer = unobserved());
// On random inputs.
Verification verify(const Graph& a, const Graph& b, const VerifyOptions& options = {},
                    Observer& observer = unobserved());

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
  // a finite number and the other does not.
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

// What changed from one graph to another, node by node. Nodes are paired in their order: the common subsequence of most
// weight, where two nodes of the same operator weigh something and of the same name more. So a folded batch norm is one
// node removed, and a network in which an exporter renamed everything still lines up with the original.
GraphDiff diff(const Graph& a, const Graph& b);

}  // namespace pare
