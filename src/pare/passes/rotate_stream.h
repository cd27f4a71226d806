// A residual stream in another basis (Ashkboos et al. 2024, SliceGPT). With an orthogonal Q [D, D] the stream x becomes
// x Q:
//
//   what writes      x = y W + b       becomes  y (W C Q) + b C Q, C = I − 11ᵀ/D where its norms subtract the mean
//   the norms        n(x) g + s        become   rms(x Q) = rms(x) Q, without scale and shift: RMSNormalization
//   what reads them  (n(x) g + s) V    becomes  rms(x Q) (Qᵀ diag(g) V) + s V
//
// The network computes what it computed, to rounding; but its channels are now those of the basis, and as no norm
// subtracts their mean any more, they may go (ops/layer_norm.cpp): the last ones of principal components at the least
// cost.
#pragma once

#include <ATen/core/Tensor.h>

#include "pare/analysis/streams.h"
#include "pare/graph.h"

namespace pare {

// `stream` is one of find_streams(graph) that has no reason against it; `basis` has the channels of stream.ids as rows.
Graph rotate_stream(const Graph& graph, const Streams& streams, const Stream& stream, const at::Tensor& basis);

// The norms that begin a stream (after the patches of a Swin transformer, say) have a scale that no layer takes over:
// their scale and shift become a layer of their own, so that what they read and what they give are two streams.
Graph part_first_norms(const Graph& graph);

}  // namespace pare
