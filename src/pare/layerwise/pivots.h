// Two symmetric matrices from which one block of rows after another is taken: what an inverse P and the gram matrix
// W Wᵀ of weights W = P R become without a channel (layerwise/eliminate.h), what a covariance E and E Q E become once a
// channel is known (prune/subset.h). With u = E_k:, B = E_kk⁻¹ and a = B A_k:
//   E' = E − uᵀ B u,   A' = A − uᵀ z − zᵀ u,   z = a − ½ B A_kk B u
// Only the blocks on the diagonals follow every step. The matrices lag behind by some rows u, B u and z, which are then
// applied together, as matrix products: d³ operations take the time of products, and not that of reading the matrices
// d times.
//
// A value; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pare {

class PivotedPair {
 public:
  // E and A, double [d, d], are taken over. Blocks of `rows` rows each are the first `blocks`·`rows` rows.
  PivotedPair(at::Tensor E, at::Tensor A, int64_t blocks, int64_t rows = 1);

  // The blocks on the diagonals, [blocks, rows, rows]; of those that were taken, the identity and zero.
  const at::Tensor& diagonal_E() const { return e_; }
  const at::Tensor& diagonal_A() const { return a_; }
  // B right for blocks of E's diagonal, one or a stack of them.
  at::Tensor solved(const at::Tensor& block, const at::Tensor& right) const;

  void take(int64_t block);

 private:
  at::Tensor blocks_of_products(const at::Tensor& u, const at::Tensor& z) const;
  at::Tensor own_columns(const at::Tensor& list, int64_t begin) const;
  void remember(const at::Tensor& u, const at::Tensor& y, const at::Tensor& z);
  void catch_up();

  int64_t blocks_, rows_;
  at::Tensor E_, A_;
  at::Tensor e_, a_;      // the blocks on their diagonals
  at::Tensor u_, y_, z_;  // [most, d], y = B u
  int64_t lag_ = 0;
};

}  // namespace pare
