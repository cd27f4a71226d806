// Repairing the statistics of an averaged network. Averaging neurons that do not quite agree shrinks what they compute;
// each of these gives the fused network back what its aligned parents have, layer by layer from the input on. All
// networks run side by side over the samples, in pieces and in bounded memory (layerwise/side_by_side.h).
//
//   reset_batch_norms   running statistics of the fused network itself on samples
//   rescale             REPAIR (Jordan et al., ICLR 2023): every pre-activation gets the mean and deviation that the
//                       parents have on average, where a batch norm follows by resetting it; without samples every row
//                       of weights gets the mean norm of the parents' rows
//   regress             least squares to the mean Z of the parents' pre-activations, from the fused network's own
//                       inputs U, drawn towards the average W:
//                         W ← W + (Z − W U) Uᵀ/N · (U Uᵀ/N + ρ·mean diag·I)⁻¹
//                       Batch norms are reset, then folded, first.
//
// Both give layers without a bias one, as shifting a mean needs it.
//
// Parents are aligned: they have the fused network's nodes and names. `shares` sum to one.
#pragma once

#include <cstdint>
#include <vector>

#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/samples/samples.h"

namespace pare {

struct Parents {
  const std::vector<Graph>& networks;
  const std::vector<double>& shares;
  Observer& observer = unobserved();  // each of its ranks has its own part of the samples
  int64_t memory = int64_t{1} << 30;  // bytes of values that may be kept from layer to layer
};

Graph reset_batch_norms(const Graph& graph, const Samples& samples, ProcessGroup& ranks = alone(),
                        int64_t memory = int64_t{1} << 30);

Graph rescale(const Graph& fused, const Parents& parents, const Samples& samples);
Graph rescale_norms(const Graph& fused, const Parents& parents);

Graph regress(const Graph& fused, const Parents& parents, const Samples& samples, double rho);

}  // namespace pare
