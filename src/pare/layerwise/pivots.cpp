#include "pare/layerwise/pivots.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace pare {

namespace {

constexpr int64_t kAtOnce = 64;  // rows that are applied together
constexpr double kSmallest = 1e-300;

at::Tensor diagonal_blocks(const at::Tensor& matrix, int64_t blocks, int64_t rows) {
  const at::Tensor own = matrix.narrow(0, 0, blocks * rows).narrow(1, 0, blocks * rows);
  return own.unfold(0, rows, rows).unfold(1, rows, rows).diagonal().permute({2, 0, 1}).contiguous();
}

}  // namespace

PivotedPair::PivotedPair(at::Tensor E, at::Tensor A, int64_t blocks, int64_t rows)
    : blocks_(blocks),
      rows_(rows),
      E_(std::move(E)),
      A_(std::move(A)),
      e_(diagonal_blocks(E_, blocks, rows)),
      a_(diagonal_blocks(A_, blocks, rows)),
      u_(at::zeros({std::max(kAtOnce, rows), E_.size(0)}, at::kDouble)),
      y_(at::zeros_like(u_)),
      z_(at::zeros_like(u_)) {}

at::Tensor PivotedPair::solved(const at::Tensor& block, const at::Tensor& right) const {
  if (rows_ == 1) return right / block.clamp_min(kSmallest);
  const at::Tensor size = block.diagonal(0, -2, -1).mean(-1).clamp_min(kSmallest).unsqueeze(-1).unsqueeze(-1);
  return at::linalg_solve(block + 1e-12 * size * at::eye(rows_, block.options()), right);
}

void PivotedPair::take(int64_t block) {
  const int64_t begin = block * rows_;
  if (lag_ + rows_ > u_.size(0)) catch_up();
  const at::Tensor us = u_.narrow(0, 0, lag_), ys = y_.narrow(0, 0, lag_), zs = z_.narrow(0, 0, lag_);
  const at::Tensor own_u = own_columns(us, begin);
  const at::Tensor u = at::addmm(E_.narrow(0, begin, rows_), own_u, ys, 1, -1);
  const at::Tensor A_k =
      at::addmm(A_.narrow(0, begin, rows_), own_u, zs, 1, -1).addmm_(own_columns(zs, begin), us, 1, -1);
  const at::Tensor E_kk = e_[block].clone();
  const at::Tensor y = solved(E_kk, u);
  const at::Tensor S = solved(E_kk, solved(E_kk, a_[block]).t());
  remember(u, y, solved(E_kk, A_k) - at::mm(S, u) / 2);
  e_[block].copy_(at::eye(rows_, e_.options()));
  a_[block].zero_();
}

// Of the rows that the matrices lag behind by, the entries of a block: [rows, lag].
at::Tensor PivotedPair::own_columns(const at::Tensor& list, int64_t begin) const {
  return list.narrow(1, begin, rows_).t();
}

void PivotedPair::remember(const at::Tensor& u, const at::Tensor& y, const at::Tensor& z) {
  u_.narrow(0, lag_, rows_).copy_(u);
  y_.narrow(0, lag_, rows_).copy_(y);
  z_.narrow(0, lag_, rows_).copy_(z);
  lag_ += rows_;
  e_ -= blocks_of_products(u, y);
  const at::Tensor both = blocks_of_products(u, z);
  a_ -= both + both.transpose(1, 2);
}

// The blocks on the diagonal of uᵀ z.
at::Tensor PivotedPair::blocks_of_products(const at::Tensor& u, const at::Tensor& z) const {
  const auto by_block = [&](const at::Tensor& list) {
    return list.narrow(1, 0, blocks_ * rows_).reshape({rows_, blocks_, rows_}).transpose(0, 1);
  };
  if (rows_ == 1) return (u * z).narrow(1, 0, blocks_).reshape({blocks_, 1, 1});
  return at::bmm(by_block(u).transpose(1, 2), by_block(z));
}

void PivotedPair::catch_up() {
  const at::Tensor us = u_.narrow(0, 0, lag_), ys = y_.narrow(0, 0, lag_), zs = z_.narrow(0, 0, lag_);
  E_.addmm_(us.t(), ys, 1, -1);
  A_.addmm_(us.t(), zs, 1, -1).addmm_(zs.t(), us, 1, -1);
  lag_ = 0;
}

}  // namespace pare
