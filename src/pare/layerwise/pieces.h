// Samples in the pieces that a graph can be run on.
#pragma once

#include <algorithm>

#include "pare/graph.h"
#include "pare/samples/samples.h"

namespace pare {

struct Pieces {
  Samples samples;
  int64_t piece = 1;
  int64_t real = 0;  // samples; those after them only fill the last batch
  size_t count() const { return static_cast<size_t>((samples.size + piece - 1) / piece); }
  int64_t begin(size_t i) const { return static_cast<int64_t>(i) * piece; }
  int64_t end(size_t i) const { return std::min(begin(i) + piece, samples.size); }
  int64_t real_in(size_t i) const { return std::min(end(i), real) - begin(i); }
  // Images with their channels last, as convolutions are fastest.
  std::vector<at::Tensor> inputs(size_t i) const;
};

// As many samples as have the numbers of `usual` pictures of 224², at most eight times as many: what is done once for
// each piece should not cost more than the samples. Tokens say nothing of how large a network's values are.
int64_t piece_for(const Samples& samples, int64_t usual);

// Of `piece` samples each; where the graph's file fixes its batch, of one batch each, the last sample repeated to fill
// it.
Pieces pieces_of(const Graph& graph, const Samples& samples, int64_t piece);

}  // namespace pare
