// Moments of rows that are made of a graph's values, over a stream of samples: piece by piece, by several threads, in
// memory for a few pieces and the sums.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "pare/graph.h"
#include "pare/layerwise/row_moments.h"
#include "pare/observer.h"
#include "pare/samples/samples.h"

namespace pare {

// Rows [n, d] of one piece, a tensor for each sum that is wanted. `first` is the number of the piece's first sample.
// Called from several threads.
using RowsOfValues = std::function<std::vector<at::Tensor>(const TensorMap& values, int64_t first)>;

// Of the samples of all ranks, in pieces of `piece` samples; `values` are those that the rows are made of.
std::vector<RowMoments> value_moments(const Graph& graph, const std::set<std::string>& values, const Samples& samples,
                                      int64_t piece, const RowsOfValues& rows, Observer& observer);

}  // namespace pare
