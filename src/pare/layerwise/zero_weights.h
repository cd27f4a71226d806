// Weights of a linear layer set to zero, and the others moved so that its output stays: optimal brain surgeon (Hassibi
// & Stork 1993) as OBC and SparseGPT have it (Frantar & Alistarh 2022, 2023).
//
// With W* the weights that fit best and H the second moments of the rows that they read, a layer W loses
//   tr (W − W*) H (W − W*)ᵀ,      each row w of W for itself.
// A weight w_j that goes while the rest of its row makes up for it costs w_j² / P_jj, P = (H over the weights still
// there)⁻¹; weights B that go together cost w_Bᵀ P_BB⁻¹ w_B. In a few steps the cheapest go, and what is left of a row
// S is solved exactly: H_SS w_S = (H w*)_S. A layer for which that is too much work is swept once from column to column
// instead (SparseGPT): with UᵀU = H⁻¹ a column j that goes costs w_j² / U_jj² and moves the columns after it by
// −w_j / U_jj · U_j:.
//
// Pure functions; any thread. The same input gives the same bits, whatever the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pare {

// Which zeros are wanted. Columns of W are channels·kernel, so that neighbouring inputs lie `kernel` columns apart.
struct ZeroPattern {
  double sparsity = 0;  // part of the weights that goes; ignored with N:M
  int64_t keep = 0;     // N:M: so many of every `among` neighbouring inputs of an output stay; 0: any
  int64_t among = 0;
  int64_t tile_outputs = 1;  // weights go in tiles of so many neighbouring outputs and inputs
  int64_t tile_inputs = 1;
  int64_t kernel = 1;
  bool by_row = false;  // the same part of every output instead of the cheapest of all
};

struct ZeroOptions {
  int64_t steps = 8;    // in which weights go, at most
  double work = 2e11;   // multiplications that may be spent on exact solutions
  int64_t sweep = 128;  // columns of the sweep for which zeros are chosen together
};

struct ZeroedWeights {
  at::Tensor weight;  // double [outputs, columns]
  at::Tensor mask;    // bool, false where it is zero
  double error = 0;   // tr (W − W*) H (W − W*)ᵀ
};

// W* double [outputs, columns], H double [columns, columns] positive definite.
ZeroedWeights zero_weights(const at::Tensor& best, const at::Tensor& H, const ZeroPattern& pattern,
                           const ZeroOptions& options = {});

// The mask that keeps what scores [outputs, columns] call largest; where they are equal the earlier goes. What fills no
// whole tile or group of N:M stays.
at::Tensor mask_by_score(const at::Tensor& scores, const ZeroPattern& pattern);

// The best weights that are zero where the mask is false.
at::Tensor solve_masked(const at::Tensor& best, const at::Tensor& H, const at::Tensor& mask);

// tr (W − W*) H (W − W*)ᵀ of each row.
at::Tensor row_errors(const at::Tensor& weight, const at::Tensor& best, const at::Tensor& H);

// Wanda (Sun et al. 2024): |w_ij| · √E[x_j²], from the uncentred second moments of the inputs.
at::Tensor wanda_scores(const at::Tensor& weight, const at::Tensor& second_moments);

}  // namespace pare
