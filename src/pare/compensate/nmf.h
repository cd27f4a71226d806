// Non-negative matrix factorisation, the baseline that neuron merging is compared with: negative weights are set to
// zero and W⁺ ≈ Y Z is found by multiplicative updates (Lee & Seung 2001), Y [d, K] the filters that are kept, Z [K,
// N]. Both are non-negative, so Z passes through ReLU; but the filters themselves are lost.
#pragma once

#include "pare/compensate/merge.h"
#include "pare/prune.h"

namespace pare {

Merge nmf(const MergeProblem& problem, const NmfOptions& options);

// Y [d, k] and Z [k, n] updated in turns from where they stand; ‖W − YZ‖ never rises. Returns the updates made.
int64_t factorize_nonnegative(const at::Tensor& W, at::Tensor& Y, at::Tensor& Z, const NmfOptions& options);

}  // namespace pare
