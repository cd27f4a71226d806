// A model before and after, by accuracy where there are labels that go with its outputs, else by how far these agree
// with the original's.
#pragma once

#include <optional>
#include <string>

#include "pare/data/dataset.h"
#include "pare/graph.h"
#include "pare/samples/samples.h"
#include "pare/workflow/prune.h"

namespace pare {

// On the data or the samples of a job. References stay in use.
class Measure {
 public:
  Measure(const Graph& original, const PruneJob& options);

  Measured operator()(const Graph& graph, const std::string& what) const;

  bool by_distance() const { return by_distance_; }
  const Dataset* labelled() const { return data_ && !by_distance_ ? &*data_ : nullptr; }
  std::string note() const;

 private:
  bool fits(const Graph& original) const;

  const Graph& original_;
  const PruneJob& options_;
  std::optional<Dataset> data_;
  Samples samples_;
  bool by_distance_ = false;
};

}  // namespace pare
