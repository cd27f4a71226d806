// The linear assignment problem
//
//   min over permutations p of Σ_i C[i, p(i)]          C: [m, n] with m ≤ n; every row gets a column of its own
//
// by shortest augmenting paths (Jonker & Volgenant 1987) on a core of small entries, priced against the whole matrix
// until the dual solution is feasible for it (Volgenant 1996). The dual is the certificate:
//
//   max Σ u_i + Σ v_j   with u_i + v_j ≤ C[i, j], v_j ≤ 0 and v_j = 0 for columns left over where m < n.
//
// Pure function; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace pare {

struct Assignment {
  std::vector<int64_t> column;  // of each row
  std::vector<double> u, v;     // the dual solution
  double cost = 0;              // Σ C[i, column[i]]
};

// Error{shape} unless the cost is a matrix with no more rows than columns; Error{usage} when an entry is not finite.
//
//   at::Tensor cost = at::rand({4, 4}, at::kDouble);
//   Assignment best = solve_assignment(cost);   // best.column is a permutation
Assignment solve_assignment(const at::Tensor& cost);

}  // namespace pare
