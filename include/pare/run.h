// Execution of a graph by ATen, with autograd through every differentiable operator.
//
// A Program is a graph made ready to run: operators looked up, values numbered, last uses known. It is immutable and
// may run in several threads at once. Parameters are an argument of a run, so a method that changes them (a mask, a
// reparameterisation) only hands over other tensors.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pare/graph.h"

namespace pare {

struct OpDef;      // what is known of an operator: private
class NodeBodies;  // the subgraphs of a node: private

struct RunOptions {
  bool training = false;                  // batch statistics in BatchNormalization, Dropout on
  const TensorMap* parameters = nullptr;  // used instead of the graph's tensors of the same names
  TensorMap* statistics = nullptr;        // training: receives the updated running statistics, by tensor name
  std::vector<std::string> taps;          // values to hand back besides the outputs
  // Training: sums a tensor over the processes, so that BatchNormalization sees the batches of all of them as one.
  std::function<at::Tensor(const at::Tensor&)> sum_over_ranks;
  // Replaces a value as soon as it is made (masking, noise); called for node outputs only.
  std::function<at::Tensor(const std::string& value, const at::Tensor&)> transform;
};

struct RunResult {
  std::vector<at::Tensor> outputs;  // in the order of graph.outputs
  TensorMap tapped;
};

class Program {
 public:
  // Error{unsupported} names the first node without a rule.
  explicit Program(Graph graph);
  Program(Program&&) = default;
  Program& operator=(Program&&) = default;
  Program(const Program&) = delete;  // steps point into the graph
  Program& operator=(const Program&) = delete;

  // `inputs` in the order of graph.inputs; where the file fixes the batch, other numbers of samples run one batch
  // at a time, except in training. Gradients are recorded as ATen's grad mode says.
  RunResult run(std::span<const at::Tensor> inputs, const RunOptions& options = {}) const;

  const Graph& graph() const { return graph_; }

 private:
  struct Step {
    const OpDef* op;
    const Node* node;
    std::vector<int> inputs;  // value numbers, −1 = absent
    std::vector<int> outputs;
    std::vector<bool> last;     // is this the last read of input i?
    std::vector<int> captured;  // what its subgraphs read besides
    std::shared_ptr<NodeBodies> bodies;
  };

  int number(const std::string& value);
  int read(const std::string& value);  // numbered, and set before a run where it is a constant
  std::vector<at::Tensor> run_step(const Step& step, std::vector<at::Tensor>& values, std::vector<int32_t>& carried,
                                   const RunOptions& options) const;

  Graph graph_;
  std::map<std::string, int, std::less<>> numbers_;
  std::vector<std::pair<int, std::string>> constants_;
  std::vector<Step> steps_;
  bool carries_ = false;  // types that ATen lacks
};

// A model run as its file declares it: computed in single precision where that is half, and given back in its types.
std::vector<at::Tensor> run(const Graph& model, std::span<const at::Tensor> inputs);

// One run of a graph: for tests and one-off calls. A loop builds a Program once.
RunResult forward(const Graph& graph, std::span<const at::Tensor> inputs, const RunOptions& options = {});

// Standard normal inputs (integers: rows of the tables that they index, else 0 to 9). An open first extent is `batch`,
// other open ones are those at which the graph is analysed (`input_shape` of load() names others).
std::vector<at::Tensor> random_inputs(const Graph& graph, int64_t batch, uint64_t seed);

}  // namespace pare
