// Neuron merging (Kim, Kim, Park, Jeon: Neuron Merging: Compensating for Pruned Neurons, NeurIPS 2020), Algorithm 1,
// MostSim: W ≈ Z W_kept with at most one positive number in a row of Z. Such a Z passes through ReLU unchanged.
//
// For a removed filter 1 and every kept filter 2:
//   without batch norm   cosine of the filters with their biases appended; the most similar 2 with cosine ≥ t takes
//                        over with scale s = ‖w₁‖/‖w₂‖
//   with batch norm      X₁ ≈ s X₂ before it gives Y₁ = S Y₂ + B after it, σ = sqrt(var + ε):
//                          S = s (γ₁/γ₂)(σ₂/σ₁),   B = (γ₁/σ₁)(s (μ₂ − σ₂β₂/γ₂) − μ₁) + β₁
//                        2 minimises λ (1 − cos) + (1 − λ) |B|/S, the latter scaled to 0…1 over the candidates. S must
//                        be positive: gammas of opposite sign take s = −‖w₁‖/‖w₂‖ and the cosine negated. B cannot pass
//                        the activation and is dropped.
//   depthwise separable  the pointwise and the depthwise layer count as one convolution, whose filter is the outer
//                        product of theirs.
// Other activations than ReLU have no proof and are merged in the same way.
#pragma once

#include "pare/compensate/merge.h"
#include "pare/prune.h"

namespace pare {

Merge most_sim(const MergeProblem& problem, const MostSimOptions& options);

}  // namespace pare
