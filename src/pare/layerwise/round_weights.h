// Weights of a linear layer rounded to a grid, each column so that those after it make up for its error: optimal brain
// quantisation in a fixed order (OBQ, GPTQ: Frantar et al. 2022, 2023).
//
//   min over W on the grid of tr (W − W*) H (W − W*)ᵀ,      each row for itself
// Columns go by falling H_jj: those that matter most are rounded while most others can still make up for them. A row
// for which that is worse than rounding to the nearest is rounded to the nearest.
//
// Pure functions; any thread. The same input gives the same bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pare {

// w ≈ scale · code, codes −highest … highest. One scale for each row, or for each block of columns of a row.
struct WeightGrid {
  at::Tensor scale;       // double [rows, blocks], above zero
  int64_t block = 0;      // columns of a scale; 0: all
  int64_t highest = 127;  // 2^(bits − 1) − 1

  at::Tensor scales(int64_t columns) const;     // [rows, columns]
  at::Tensor codes(const at::Tensor& W) const;  // the nearest, as double
  at::Tensor values(const at::Tensor& codes) const;
};

// The grid of these weights: up to the largest of them or, with `importance` double [columns] (the diagonal of H), up
// to the part of it at which Σ importance_j (w_j − ŵ_j)² is least. Rows and blocks of zeros have the scale 1.
WeightGrid weight_grid(const at::Tensor& W, int64_t bits, int64_t block, const at::Tensor& importance = {});

// Codes double [rows, columns].
at::Tensor round_weights(const at::Tensor& best, const at::Tensor& H, const WeightGrid& grid);

}  // namespace pare
