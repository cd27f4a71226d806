// Entropic optimal transport (Cuturi 2013)
//
//   min over T of ⟨T, C⟩ − ε H(T)   with T 1 = a, Tᵀ 1 = b;      T = exp((f ⊕ g − C)/ε)
//
// in the log domain: the potentials f, g take up the scalings u, v whenever these grow (Schmitzer 2019), so that
// nothing underflows, and between such absorptions an iteration is two matrix-vector products with a kernel that is
// kept. ε comes down from the size of the cost in steps, each starting from the potentials of the one before.
//
// Converged means Σ_i |(T 1)_i − a_i| ≤ tolerance with columns exact. The plan returned is then moved onto the exact
// marginals (Altschuler, Weed & Rigollet 2017), converged or not.
//
// Pure function; any thread.
#pragma once

#include "pare/transport/plan.h"

namespace pare {

struct SinkhornOptions {
  double regularization = 0.01;    // ε as a fraction of the largest |C|
  double tolerance = 1e-9;         // of the row marginal, summed
  int64_t max_iterations = 10000;  // at the last ε
  double scaling = 0.25;           // ε of a step relative to the one before
};

TransportPlan sinkhorn(const at::Tensor& cost, const at::Tensor& a, const at::Tensor& b,
                       const SinkhornOptions& options = {});

}  // namespace pare
