// One linear layer from its moments: ridge regression drawn towards the weights that are there, with the strength of
// the ridge chosen on samples that are not solved on.
//
//   W(ρ) minimises  Σ over the fitted rows ‖W h + b − t‖² / n + λ ‖W − W₀‖²,   λ = ρ · mean diagonal of the covariance
//   ρ minimises     Σ over the checked rows ‖W(ρ) h + b(ρ) − t‖²
// and then W is solved once more on all rows. With G = U Λ Uᵀ every ρ costs one product:
//   W(ρ)ᵀ = W₀ᵀ + U (Λ + λ)⁻¹ Uᵀ (R − G W₀ᵀ)
// Pure functions; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "pare/layerwise/row_moments.h"

namespace pare {

// The rows of a layer's input and targets, those that are solved on and those that the ridge is chosen on.
struct SplitMoments {
  RowMoments fitted, checked;
};

struct SolveOptions {
  double ridge = 1e-2;  // ρ where none can be chosen
  // What ρ is chosen among; the last leaves the weights as they are. Empty: it is not chosen.
  std::vector<double> choices = {1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1, 3, 10, 1e6};
  int64_t largest = 1500;  // unknowns up to which it is chosen
};

struct LayerSolution {
  at::Tensor weight;  // double [outputs, rows]
  at::Tensor bias;    // double [outputs]
  double ridge = 0;
};

// Of the rows `kept` (int64 [d]) alone; `prior` is W₀ [outputs, d].
LayerSolution solve_layer(const SplitMoments& moments, const at::Tensor& kept, const at::Tensor& prior,
                          const SolveOptions& options);

}  // namespace pare
