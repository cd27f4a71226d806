// The trained network that a student learns from. It is observed as it is used: batch norms folded, no dropout, whole
// batches in its fastest form, and only what a method differentiates is recorded. What it makes of images that come
// again as they were is remembered.
//
// Used by one thread at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pare/distill/match.h"
#include "pare/distill/remembered.h"
#include "pare/run.h"

namespace pare {

class Teacher {
 public:
  // `graph` as explained_graph() gives it, `layers` are values of it.
  Teacher(const Graph& graph, std::vector<std::string> layers, MatchMethod::Gradients gradients);

  Observation observe(const Batch& batch);

 private:
  Observation observe_unrecorded(const at::Tensor& input, const Batch& batch);
  Observation observe_after(const at::Tensor& input, const Batch& batch);
  Observation observe_recorded(const at::Tensor& input) const;

  std::vector<std::string> layers_;
  MatchMethod::Gradients gradients_;
  std::optional<Program> whole_;         // no gradients: scores, then layers; of the input: the graph
  std::optional<Program> front_, back_;  // of layers: up to the first of them, and after it
  std::string first_;
  RememberedOutputs remembered_;  // of whole_ without gradients, or of front_
};

}  // namespace pare
