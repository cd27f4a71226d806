#include "pare/layerwise/row_moments.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

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
  const auto zeros = [](at::IntArrayRef dims) { return at::zeros({1}, at::kDouble).expand(dims); };  // of no memory
  return {.mean_x = zeros({d}), .mean_y = zeros({q}), .xx = zeros({d, d}), .xy = zeros({d, q})};
}

RowMoments joined(const RowMoments& a, const RowMoments& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  RowMoments sum = a;
  for (at::Tensor* own : {&sum.mean_x, &sum.mean_y, &sum.xx, &sum.xy})
    if (own->defined()) *own = own->clone();
  add(sum, {.moments = b});
  return sum;
}

RowPart row_part(const at::Tensor& x, const at::Tensor& y) {
  return x.size(0) < x.size(1) ? RowPart{.x = x, .y = y} : RowPart{.moments = row_moments(x, y)};
}

namespace {

// √(n₁n₂/(n₁ + n₂)) (m₁ − m₂), a row like any other; the mean becomes that of both.
at::Tensor between(at::Tensor& mean, const at::Tensor& other, double had, double more) {
  const at::Tensor distance = other - mean;
  mean = mean + distance * (more / (had + more));
  return distance * std::sqrt(had * more / (had + more));
}

void add_moments(RowMoments& sum, const RowMoments& more) {
  const auto had = static_cast<double>(sum.count), n = static_cast<double>(more.count);
  const at::Tensor dx = between(sum.mean_x, more.mean_x, had, n);
  sum.xx.add_(more.xx).addr_(dx, dx);
  if (!sum.mean_y.defined()) return;
  sum.xy.add_(more.xy).addr_(dx, between(sum.mean_y, more.mean_y, had, n));
}

// In double, so that the product needs no memory besides the sum's.
void add_rows(RowMoments& sum, const at::Tensor& x, const at::Tensor& y) {
  const auto had = static_cast<double>(sum.count), n = static_cast<double>(x.size(0));
  const auto with_distance = [&](const at::Tensor& rows, at::Tensor& mean) {
    const auto [centred_rows, own] = centred(rows);
    return at::cat({centred_rows.to(at::kDouble), between(mean, own, had, n).unsqueeze(0)});
  };
  const at::Tensor dx = with_distance(x, sum.mean_x);
  sum.xx.addmm_(dx.t(), dx);
  if (y.defined()) sum.xy.addmm_(dx.t(), with_distance(y, sum.mean_y));
}

// To be added to.
RowMoments zero_moments(const at::Tensor& x, const at::Tensor& y) {
  RowMoments zero = no_rows(x.size(1), y.defined() ? y.size(1) : 0);
  zero.xx = zero.xx.contiguous();
  zero.xy = y.defined() ? zero.xy.contiguous() : at::Tensor();
  if (!y.defined()) zero.mean_y = at::Tensor();
  return zero;
}

}  // namespace

void add(RowMoments& sum, RowPart part) {
  const int64_t more = part.x.defined() ? part.x.size(0) : part.moments.count;
  if (more == 0) return;
  if (!part.x.defined()) {
    if (sum.count == 0) return static_cast<void>(sum = std::move(part.moments));
    add_moments(sum, part.moments);
  } else {
    if (sum.count == 0) sum = zero_moments(part.x, part.y);
    add_rows(sum, part.x, part.y);
  }
  sum.count += more;
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
