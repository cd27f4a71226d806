// The samples that pruning learns from: some of the data, or made from the network alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "pare/data/loader.h"
#include "pare/graph.h"
#include "pare/samples/samples.h"
#include "pare/workflow/prune.h"

namespace pare {

// Made or loaded when first asked for; each rank has its part. Adds to the notes what was made, and the time it took.
class LearningImages {
 public:
  LearningImages(const PruneJob& options, bool made_only, std::vector<std::string>& notes, double& seconds)
      : options_(options), made_only_(made_only || !options.has_data()), notes_(notes), seconds_(seconds) {}

  const Samples& samples(const Graph& graph);
  // With the mirror images of colour images, unless `no_mirror` is set: twice the places to learn from.
  Samples mirrored(const Graph& graph) { return mirrored(graph, samples(graph)); }
  Samples mirrored(const Graph& graph, const Samples& some) const;
  // What judges compensations: samples that nothing is learned from, where there are any left; else, for a method that
  // `solves`, those that it only chooses by. Without data they are made.
  Samples judges(const Graph& graph, bool solves);
  // Images and labels of the training data.
  const Batch& batch(const Graph& graph);

 private:
  const Dataset& data(const Graph& graph);
  int64_t learned() const;  // of the data, at most
  const Samples& all(const Graph& graph);
  Samples noise(const Graph& graph);
  std::vector<at::Tensor> made(const Graph& graph) const;

  const PruneJob& options_;
  bool made_only_;  // a method without data stays without it also in its selection
  std::vector<std::string>& notes_;
  double& seconds_;
  std::optional<Dataset> data_;
  std::optional<Samples> all_, samples_, noise_;
  Batch batch_;
};

}  // namespace pare
