// Compensation by regression: the pruned network is run beside the original one on the same images, node by node, and
// every layer that would see something else than before is solved anew by least squares.
//
// At a layer with input x in the original and x' (fewer channels, already compensated) in the pruned network:
//   merged  x ≈ A x' + c by ridge regression over all places (ρ₁), the weights become W₀ = W A
//   full    the whole kernel is solved: W' minimises ‖W' u(x') + b − t‖² + λ‖W' − W₀‖² over all places, u(x') the
//           unfolded patches, λ = ρ₂·mean diagonal of their covariance
//   target  t = what the layer gives in the original; where a batch norm and an addition with a shortcut z follow, what
//           the shortcut lost is asked of the layer too: t + (z − z')·σ/γ
// Solving from the moments of patches needs memory for one (channels·kernel)² matrix; wider layers are merged only.
// Batch norms that see something else than before but follow no solved layer get running statistics with which their
// output has the mean and variance it had.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/core/graph.h"
#include "pare/dist/process_group.h"

namespace pare {

struct ReconstructOptions {
  double merge_ridge = 1e-3;       // ρ₁
  double ridge = 1e-2;             // ρ₂
  double own_ridge = 3e-1;         // ρ₂ of layers that lost no channel
  int64_t largest = 4096;          // unknowns of a filter up to which it is solved in full; 0: all layers merged only
  bool every_layer = true;         // also layers that lost no channel but whose input changed
  bool shortcut = true;            // ask what a shortcut lost of the layer beside it
  bool norms = true;               // move the statistics of batch norms that follow no solved layer
  ProcessGroup* ranks = &alone();  // each has its own part of the inputs
  std::function<void(int64_t done, int64_t all)> progress;
};

struct ReconstructReport {
  std::vector<std::string> solved;  // layers solved in full
  std::vector<std::string> merged;  // merged only
  std::vector<std::string> left;    // and those that could be neither, with the reason
};

// `pruned` is `original` without the channels `removed` of `map`; `inputs` hold all images, or this rank's part of
// them. Returns the pruned graph with other weights.
Graph reconstruct(const Graph& original, const Graph& pruned, const ChannelMap& map, const std::set<ChannelId>& removed,
                  const std::vector<at::Tensor>& inputs, const ReconstructOptions& options, ReconstructReport& report);

}  // namespace pare
