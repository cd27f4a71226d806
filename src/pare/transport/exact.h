// Exact discrete optimal transport (the earth mover's distance)
//
//   min over T ≥ 0 of ⟨T, C⟩   with T 1 = a, Tᵀ 1 = b            C: [m, n], a: [m], b: [n]
//
// and its dual max ⟨u, a⟩ + ⟨v, b⟩ with u_i + v_j ≤ C[i, j], which is the certificate. Equal uniform marginals are an
// assignment (transport/assignment.h); everything else goes through a network simplex on the bipartite graph whose
// pricing scans dense rows. Flows are integers: marginals are rounded to multiples of about 2⁻⁴⁰ (uniform ones exactly)
// and perturbed below that unit (Orden 1956), so no pivot is degenerate and the method cannot cycle.
//
// Pure function; any thread.
#pragma once

#include "pare/transport/plan.h"

namespace pare {

// Marginals are renormalised. Error{shape} or Error{usage} for what does not fit or is not finite.
//
//   TransportPlan best = solve_transport(cost, uniform_marginal(3), uniform_marginal(2));
TransportPlan solve_transport(const at::Tensor& cost, const at::Tensor& a, const at::Tensor& b);
TransportPlan solve_transport(const at::Tensor& cost);  // uniform marginals

}  // namespace pare
