// The principal components of residual streams, as their norms see them: eigenvectors of E[n nᵀ] of the normalised
// stream n, over all norms, places and samples; the largest first.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "pare/analysis/streams.h"
#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/samples/samples.h"

namespace pare {

struct StreamBasis {
  at::Tensor vectors;  // double [D, D], in columns
  at::Tensor parts;    // double [D]: of the whole energy, descending
};

// One for each stream, an undefined one where it can't be rotated.
std::vector<StreamBasis> stream_bases(const Graph& graph, const Streams& streams, const Samples& samples,
                                      Observer& observer);

}  // namespace pare
