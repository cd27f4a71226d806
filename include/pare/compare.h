// Do two models compute the same, and what changed from one to the other?
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pare/evaluate.h"
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

// How far a model still does what another does, without labels: for any number of inputs and outputs.
struct AgreementOptions {
  std::string decoder;       // of detectors: how outputs become boxes (EvaluateOptions); empty: boxes are not compared
  double box_score = 0.5;    // boxes that count
  double box_overlap = 0.5;  // two boxes are the same where their intersection is at least this part of their union

  void describe(OptionVisitor& options);
  void describe_boxes(OptionVisitor& options);  // all but the decoder
};

// Of outputs z of the reference and z' of the other, means over samples.
struct OutputAgreement {
  std::string name;
  double distance = 0;  // ‖z' − z‖ / ‖z‖
  double cosine = 0;    // z·z' / ‖z‖‖z'‖
  double largest = 0;   // the largest |z' − z| of all samples
  // Where the largest of an output's scores is the same: of [N, C] and [N, C, h, w] along C, of [N, T, C] along C; of
  // integers where they are equal. NaN where there is nothing to choose from.
  double classes = 0;
};

struct Agreement {
  std::vector<OutputAgreement> outputs;
  // Of boxes with the same class, paired from the largest overlap down: twice the pairs over the boxes of both models,
  // and the mean overlap of the pairs. NaN without a decoder, and where neither model finds any.
  double boxes = std::numeric_limits<double>::quiet_NaN();
  double box_overlap = std::numeric_limits<double>::quiet_NaN();
  int64_t reference_boxes = 0;
  int64_t samples = 0;
};

// distance, cosine and argmax (means over the outputs that have them), max-difference (the largest), and boxes and
// box-iou where there is a decoder; what is not defined is not there.
MetricList metrics_of(const Agreement& agreement);
std::vector<std::string> agreement_names(bool boxes);

// Models have the reference's numbers of inputs and outputs, else Error{shape}; where an output has another shape, the
// distance is 1 and nothing agrees.
std::vector<Agreement> agreement(const Graph& reference, const std::vector<Graph>& models, const Samples& samples,
                                 const AgreementOptions& options = {}, Observer& observer = unobserved());
Agreement agreement(const Graph& reference, const Graph& model, const Samples& samples,
                    const AgreementOptions& options = {}, Observer& observer = unobserved());

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
