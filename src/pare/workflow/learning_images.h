// The images that pruning learns from: some of the data, or made from the network alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "pare/core/graph.h"
#include "pare/data/loader.h"
#include "pare/workflow/prune.h"

namespace pare {

// Made or loaded when first asked for; each rank has its part. Adds to the notes what was made, and the time it took.
class LearningImages {
 public:
  LearningImages(const PruneOptions& options, std::vector<std::string>& notes, double& seconds)
      : options_(options), notes_(notes), seconds_(seconds) {}

  // One tensor for each input of the graph.
  const std::vector<at::Tensor>& inputs(const Graph& graph);
  // Images and labels of the training data.
  const Batch& batch(const Graph& graph);

 private:
  bool made_only() const;
  std::vector<at::Tensor> made(const Graph& graph) const;

  const PruneOptions& options_;
  std::vector<std::string>& notes_;
  double& seconds_;
  std::vector<at::Tensor> inputs_;
  Batch batch_;
};

}  // namespace pare
