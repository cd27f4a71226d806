// What the commands that make attribution maps of several models share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "pare/data/dataset.h"
#include "pare/error.h"
#include "pare/explain.h"
#include "pare/graph.h"

namespace pare {

// What `work` returns; an Error that it throws says which model it is about.
template <typename Work>
auto of_model(const std::string& name, const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.kind(), name, "{}: {}", error.where(), error.message());
  }
}

// An attributor that has explained the first image already: an Error that names the model comes before any long work.
// Error{shape} when the model does not take the images, or has fewer scores than the data has classes (multi-label:
// another number of them), and what Attributor throws.
Attributor tried_attributor(const std::string& name, const Graph& model, const Dataset& data,
                            const AttributionOptions& options);

// Maps that say nothing.
struct MapCounts {
  int64_t maps = 0;
  int64_t zero = 0;  // all zero
  int64_t nan = 0;   // with a NaN

  void add(const at::Tensor& map);
  void merge(const MapCounts& other);
};

struct MapSimilarity {
  double cosine = 0, rank_correlation = 0;  // as metrics/localization.h has them
};

// Of each pair of two stacks of maps, [P, h, w]: as they are where both are of one size, else at the images' size.
std::vector<MapSimilarity> map_similarity(const at::Tensor& a, const at::Tensor& b, int64_t height, int64_t width);

}  // namespace pare
