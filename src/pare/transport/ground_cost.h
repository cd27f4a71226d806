// Ground costs between two sets of points, the rows of x [m, d] and y [n, d]:
//
//   euclidean   |x_i − y_j|            (not squared: what the fusion paper transports with)
//   squared     |x_i − y_j|²
//   cosine      1 − ⟨x_i, y_j⟩ / |x_i||y_j|, with 1 where a norm is zero
//
// One matrix product in the points' own precision; pairs so close that the difference of squares would lose digits are
// computed again in double, so equal points are at distance exactly zero.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace pare {

enum class GroundCost { euclidean, squared, cosine };

// double [m, n]. Error{shape} unless both are matrices of equally many columns.
at::Tensor ground_cost(const at::Tensor& x, const at::Tensor& y, GroundCost kind = GroundCost::euclidean);

// Rows divided by their norms; rows of zeros stay.
at::Tensor unit_rows(const at::Tensor& x);

}  // namespace pare
