// Several kept neurons for each removed one: w_n ≈ Σ_k z_k w_k with z ≥ 0 and at most m terms, by orthogonal matching
// pursuit with non-negative least squares (Lawson & Hanson 1974; Bruckstein, Elad, Zibulevsky 2008). m = 1 is MostSim
// without a threshold. Filters are those that the layer and its batch norm compute together, bias appended.
#pragma once

#include "pare/compensate/merge.h"
#include "pare/prune.h"

namespace pare {

Merge nnls(const MergeProblem& problem, const NnlsOptions& options);

// min ‖A z − y‖ over z ≥ 0 with at most `terms` positive entries, from G = AᵀA [k, k] and h = Aᵀy [k].
std::vector<double> matching_pursuit(const at::Tensor& gram, const at::Tensor& h, int64_t terms);

}  // namespace pare
