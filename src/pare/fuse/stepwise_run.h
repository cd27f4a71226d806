// One run of a graph over samples in steps: between two of them the parameters of later nodes may change.
//
// Samples run in pieces. A step takes every piece from the values that the last one left to those that are read later,
// so that a method that fits layer after layer runs each node once, and not all before a layer for every layer. Where
// the values of all pieces would take more than `memory` bytes, those of an earlier node are kept, and a piece runs
// again from there when it is asked for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "pare/graph.h"
#include "pare/run.h"

namespace pare {

// The samples, one tensor for every input, in pieces to be run at once: no larger than a batch that the graph fixes.
std::vector<std::vector<at::Tensor>> in_pieces(const Graph& graph, const std::vector<at::Tensor>& samples);

class StepwiseRun {
 public:
  // Reads the graph's parameters when their nodes run: it may change in between, but not its nodes.
  StepwiseRun(const Graph& graph, const std::vector<at::Tensor>& samples, int64_t memory = int64_t{1} << 30);

  // Runs every node before `node` that has not run yet. Nodes only come later.
  void advance_to(size_t node);

  size_t pieces() const { return values_.size(); }
  // A value that is read by `node` or later, of one piece.
  at::Tensor value(size_t piece, const std::string& name) const { return values_of(piece).at(name); }
  // The first output that the node at which the run stands would have, of one piece.
  at::Tensor next_output(size_t piece) const;

  int64_t nodes_run() const { return nodes_run_; }  // of all pieces

 private:
  Graph part(size_t begin, size_t end) const;
  // What `program`, the nodes up to `end`, makes of the values before them; only what is read later is left.
  TensorMap run(const Program& program, TensorMap values, size_t end) const;
  const TensorMap& values_of(size_t piece) const;

  const Graph& graph_;
  int64_t memory_;
  std::vector<TensorMap> values_;              // of each piece before node kept_, those that are read from it on
  std::map<std::string, size_t> last_reader_;  // of each value
  size_t kept_ = 0;
  size_t node_ = 0;          // where the run stands
  mutable TensorMap again_;  // the values there of the piece that was asked for last, where they are not kept
  mutable size_t again_of_ = 0;
  mutable int64_t nodes_run_ = 0;
};

}  // namespace pare
