// Elimination of channels in the best order: optimal brain surgeon over whole channels.
//
// A reader gives W h of its rows h (weights W [q, d], rows with covariance G). Without channel j, and with the others
// making up for it as well as they can, it loses ‖W_j‖² / P_jj, P = G⁻¹ (a channel of several rows: tr W_jᵀ P_jj⁻¹
// W_j):
//   repeat  j = argmin Σ over readers ‖W_j‖² / P_jj
//           error += that;   W −= P_:j P_jj⁻¹ W_j;   P −= P_:j P_jj⁻¹ P_j:
// One pass gives the order and the error at every width, in O(d³), most of it in products of matrices: of W only W Wᵀ
// is followed, and updates are applied some at a time (layerwise/pivots.h). Outputs are weighed by Q, the square root
// of what a change of them means to the network; the mean of the rows is taken over by the bias and costs nothing.
//
// Pure functions; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace pare {

// What one reader makes of a group of channels. The rows of channel i are rows i·rows … (i + 1)·rows; those after the
// last channel's belong to nobody in the group, stay, and help.
struct EliminationReader {
  at::Tensor covariance;  // G, double [d, d]
  at::Tensor weight;      // Q W, double [q, d]
  int64_t rows = 1;       // of each channel
};

struct Elimination {
  std::vector<int64_t> order;  // channels, the first to go first
  std::vector<double> error;   // of the network without the first i + 1 of them
};

// Every reader sees the same n channels, of which `most` go (below zero: all). `ridge` times the mean of its diagonal
// is added to each covariance.
Elimination eliminate(const std::vector<EliminationReader>& readers, int64_t channels, double ridge, int64_t most = -1);

}  // namespace pare
