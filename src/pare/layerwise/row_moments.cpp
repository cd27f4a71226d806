#include "pare/layerwise/row_moments.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "pare/ops/onednn.h"

namespace pare {

namespace {

constexpr int64_t kBlockRows = 1024;    // centred and multiplied while they are near, in single precision
constexpr int64_t kBlockColumns = 128;  // of a symmetric product, of which one half is computed

// Single or double precision, and their mean.
struct Rows {
  at::Tensor all;
  at::Tensor centre;  // nearly the mean
  at::Tensor rest;    // double: what is missing to it
  at::Tensor mean;    // double

  int64_t count() const { return all.size(0); }
  at::Tensor block(int64_t begin) const {
    return all.narrow(0, begin, std::min(kBlockRows, all.size(0) - begin)) - centre;
  }
};

Rows rows_of(const at::Tensor& given) {
  Rows rows{.all = given.scalar_type() == at::kDouble ? given : given.to(at::kFloat)};
  rows.centre = rows.all.sum(0) / static_cast<double>(std::max<int64_t>(rows.count(), 1));
  rows.rest = at::zeros({given.size(1)}, at::kDouble);
  return rows;
}

// sum += xᵀy
void add_product(at::Tensor sum, const at::Tensor& x, const at::Tensor& y) {
  if (x.scalar_type() == at::kDouble)
    sum.addmm_(x.t(), y);
  else
    sum += transposed_product(x, y);
}

// sum += xᵀx, of which only what lies right of the blocks' diagonal is touched.
void add_upper(const at::Tensor& sum, const at::Tensor& x) {
  for (int64_t begin = 0; begin < x.size(1); begin += kBlockColumns) {
    const int64_t columns = std::min(kBlockColumns, x.size(1) - begin);
    add_product(sum.narrow(0, begin, columns).slice(1, begin), x.narrow(1, begin, columns), x.slice(1, begin));
  }
}

void mirror_upper(const at::Tensor& sum) {
  for (int64_t end = kBlockColumns; end < sum.size(0); end += kBlockColumns) {
    const auto block = [&](const at::Tensor& of) {
      return of.narrow(1, end - kBlockColumns, kBlockColumns).slice(0, end);
    };
    block(sum).copy_(sum.narrow(0, end - kBlockColumns, kBlockColumns).slice(1, end).t());
  }
}

void settle_mean(Rows& rows) {
  rows.rest /= static_cast<double>(std::max<int64_t>(rows.count(), 1));
  rows.mean = rows.centre.to(at::kDouble) + rows.rest;
}

// Sums of products about the mean, added to sums in their own memory. The rows get their means.
void add_products(const at::Tensor& xx, const at::Tensor& xy, Rows& x, Rows& y) {
  const auto count = static_cast<double>(x.count());
  for (int64_t begin = 0; begin < x.count(); begin += kBlockRows) {
    const at::Tensor dx = x.block(begin);
    x.rest += dx.sum(0);
    add_upper(xx, dx);
    if (!xy.defined()) continue;
    const at::Tensor dy = y.block(begin);
    y.rest += dy.sum(0);
    add_product(xy, dx, dy);
  }
  mirror_upper(xx);
  settle_mean(x);
  xx.addr_(x.rest, x.rest, 1, -count);
  if (!xy.defined()) return;
  settle_mean(y);
  xy.addr_(x.rest, y.rest, 1, -count);
}

}  // namespace

RowMoments row_moments(const at::Tensor& x, const at::Tensor& y) {
  RowMoments moments{.count = x.size(0), .xx = at::zeros({x.size(1), x.size(1)}, at::kDouble)};
  Rows of_x = rows_of(x), of_y;
  if (y.defined()) {
    of_y = rows_of(y);
    moments.xy = at::zeros({x.size(1), y.size(1)}, at::kDouble);
  }
  add_products(moments.xx, moments.xy, of_x, of_y);
  moments.mean_x = of_x.mean;
  moments.mean_y = of_y.mean;
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

void add_rows(RowMoments& sum, const at::Tensor& x, const at::Tensor& y) {
  const auto had = static_cast<double>(sum.count), n = static_cast<double>(x.size(0));
  Rows of_x = rows_of(x), of_y = y.defined() ? rows_of(y) : Rows{};
  add_products(sum.xx, sum.xy, of_x, of_y);
  const at::Tensor dx = between(sum.mean_x, of_x.mean, had, n);
  sum.xx.addr_(dx, dx);
  if (y.defined()) sum.xy.addr_(dx, between(sum.mean_y, of_y.mean, had, n));
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
