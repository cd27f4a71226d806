// One pass over the columns of a layer's weights, in which a column is fixed (to zero, to a grid) and those after it
// make up for it (Frantar et al. 2023: the order of OBQ and SparseGPT, for all rows at once).
//
// With UᵀU = H⁻¹, U upper triangular, a column j that is fixed to q moves the columns after it by
//   −(w_j − q) / U_jj · U_j:
// which is the least-squares answer over the columns that are not fixed yet. Pure functions; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace pare {

// H⁻¹ of a positive definite H, and its factor U.
at::Tensor inverse_of(const at::Tensor& H);
at::Tensor inverse_factor(const at::Tensor& H);

struct ColumnSweep {
  // Called before the columns [begin, begin + n) are fixed, with their weights as they are then [rows, n].
  std::function<void(int64_t begin, const at::Tensor& weights)> enter = {};
  // What column j becomes, of what it is [rows].
  std::function<at::Tensor(int64_t column, const at::Tensor& weights)> fix;
};

// W double [rows, columns], block after block of `block` columns.
at::Tensor swept(const at::Tensor& W, const at::Tensor& U, int64_t block, const ColumnSweep& sweep);

}  // namespace pare
