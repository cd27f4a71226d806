// The trained network that a student learns from. It is observed as it is used: batch norms folded, no dropout, whole
// batches in its fastest form, and only what a method differentiates is recorded.
//
// Immutable; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pare/distill/match.h"
#include "pare/exec/program.h"

namespace pare {

class Teacher {
 public:
  // `graph` as explained_graph() gives it, `layers` are values of it.
  Teacher(const Graph& graph, std::vector<std::string> layers, MatchMethod::Gradients gradients);

  // Of a batch's images.
  Observation observe(const at::Tensor& images) const;

 private:
  Observation observe_unrecorded(const at::Tensor& input) const;
  Observation observe_behind(const at::Tensor& input) const;
  Observation observe_recorded(const at::Tensor& input) const;

  std::vector<std::string> layers_;
  MatchMethod::Gradients gradients_;
  std::optional<Program> whole_;         // no gradients: scores, then layers; of the input: the graph
  std::optional<Program> front_, back_;  // of layers: up to the first of them, and behind
  std::string first_;
};

}  // namespace pare
