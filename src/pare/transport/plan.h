// What every transport solver takes and returns: a cost matrix [m, n] and marginals a [m], b [n] with one sum, a plan
// T [m, n] ≥ 0 whose rows sum to a and whose columns sum to b.
//
// Pure functions and values; any thread. Tensors are double and on the CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace pare {

struct TransportPlan {
  at::Tensor plan;  // T, double [m, n]
  double cost = 0;  // ⟨T, C⟩
  at::Tensor u, v;  // dual solution: u_i + v_j ≤ C[i, j]; with entropy the scaled logarithms f, g
  bool converged = true;
  int64_t iterations = 0;
};

at::Tensor uniform_marginal(int64_t count);  // 1/count each

// `weights` ≥ 0 as a distribution, renormalised in double; Error{usage} when one is negative or not finite or none is
// positive, Error{shape} when there are not `count` of them.
at::Tensor normalized_marginal(const at::Tensor& weights, int64_t count, const std::string& where);

// Throws Error{failed} when the plan's sum or a marginal is further than `tolerance` from where it should be, or when
// an entry is negative or not finite: a plan that lost its mass makes a source vanish without a trace.
void check_plan(const at::Tensor& plan, const at::Tensor& a, const at::Tensor& b, double tolerance,
                const std::string& where);

// How far a plan is from a permutation: 1 − (mass on the largest entry of each row), 0 when no row's mass is split.
double mass_split(const at::Tensor& plan);

// The cost as a contiguous double matrix; Error{shape} when it is not a matrix or is empty.
at::Tensor check_cost(const at::Tensor& cost, const std::string& where);

// max |row_j|; Error{usage} when an entry is not finite.
double checked_magnitude(const double* row, int64_t columns, const std::string& where);

}  // namespace pare
