#include "pare/layerwise/row_moments.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace pare {

namespace {

constexpr int64_t kBlockRows = 4096;  // multiplied in single precision at once; their sums are double

at::Tensor product(const at::Tensor& x, const at::Tensor& y) {
  at::Tensor sum = at::zeros({x.size(1), y.size(1)}, at::kDouble);
  for (int64_t begin = 0; begin < x.size(0); begin += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, x.size(0) - begin);
    sum += at::mm(x.narrow(0, begin, rows).t(), y.narrow(0, begin, rows));
  }
  return sum;
}

// Rows of single or double precision, about their mean.
std::pair<at::Tensor, at::Tensor> centred(const at::Tensor& rows) {
  const at::Tensor own = rows.scalar_type() == at::kDouble ? rows : rows.to(at::kFloat);
  const at::Tensor mean = own.sum(0, false, at::kDouble) / static_cast<double>(std::max<int64_t>(own.size(0), 1));
  return {own - mean.to(own.scalar_type()), mean};
}

}  // namespace

RowMoments row_moments(const at::Tensor& x, const at::Tensor& y) {
  RowMoments moments{.count = x.size(0)};
  at::Tensor dx;
  std::tie(dx, moments.mean_x) = centred(x);
  moments.xx = product(dx, dx);
  if (!y.defined()) return moments;
  at::Tensor dy;
  std::tie(dy, moments.mean_y) = centred(y);
  moments.xy = product(dx, dy);
  return moments;
}

RowMoments no_rows(int64_t d, int64_t q) {
  const auto zeros = [](at::IntArrayRef dims) { return at::zeros(dims, at::kDouble); };
  return {.mean_x = zeros({d}), .mean_y = zeros({q}), .xx = zeros({d, d}), .xy = zeros({d, q})};
}

RowMoments joined(const RowMoments& a, const RowMoments& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const auto n_a = static_cast<double>(a.count), n_b = static_cast<double>(b.count);
  const double n = n_a + n_b, shared = n_a * n_b / n;
  RowMoments sum{.count = a.count + b.count};
  const at::Tensor dx = b.mean_x - a.mean_x;
  sum.mean_x = a.mean_x + dx * (n_b / n);
  sum.xx = (a.xx + b.xx).addr_(dx, dx, 1, shared);
  if (!a.mean_y.defined()) return sum;
  const at::Tensor dy = b.mean_y - a.mean_y;
  sum.mean_y = a.mean_y + dy * (n_b / n);
  sum.xy = (a.xy + b.xy).addr_(dx, dy, 1, shared);
  return sum;
}

RowMoments over_ranks(const RowMoments& own, ProcessGroup& ranks) {
  if (ranks.alone()) return own;
  // About a common point, which is where the first message puts all means.
  const bool targets = own.mean_y.defined();
  const auto n = static_cast<double>(own.count);
  const at::Tensor mean = targets ? at::cat({own.mean_x, own.mean_y}) : own.mean_x;
  at::Tensor first = at::cat({at::full({1}, n, at::kDouble), mean * n});
  ranks.sum(first);
  const double all = first[0].item<double>();
  if (all == 0) return own;
  const at::Tensor centre = first.slice(0, 1) / all;
  RowMoments sum{.count = static_cast<int64_t>(all)};
  const int64_t d = own.mean_x.numel();
  sum.mean_x = centre.slice(0, 0, d);
  const at::Tensor dx = own.mean_x - sum.mean_x;
  sum.xx = own.xx.clone().addr_(dx, dx, 1, n);
  ranks.sum(sum.xx);
  if (!targets) return sum;
  sum.mean_y = centre.slice(0, d);
  sum.xy = own.xy.clone().addr_(dx, own.mean_y - sum.mean_y, 1, n);
  ranks.sum(sum.xy);
  return sum;
}

}  // namespace pare
