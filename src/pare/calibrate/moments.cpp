#include "pare/calibrate/moments.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace pare {

namespace {

// Rows are multiplied in single precision a block at a time and the blocks are summed in double: the products are a
// matrix product at full speed, the long sum loses nothing.
constexpr int64_t kBlockRows = 4096;

at::Tensor product_in_blocks(const at::Tensor& x, const at::Tensor& y) {
  if (x.scalar_type() == at::kDouble) return at::mm(x.t(), y);
  at::Tensor sum = at::zeros({x.size(1), y.size(1)}, at::kDouble);
  for (int64_t begin = 0; begin < x.size(0); begin += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, x.size(0) - begin);
    sum += at::mm(x.narrow(0, begin, rows).t(), y.narrow(0, begin, rows));
  }
  return sum;
}

void accumulate(at::Tensor& total, const at::Tensor& more) { total = total.defined() ? total + more : more; }

}  // namespace

void Moments::add(const at::Tensor& rows) {
  count_ += rows.size(0);
  accumulate(sum_, rows.sum(0, false, at::kDouble));
  accumulate(gram_, product_in_blocks(rows, rows));
}

at::Tensor Moments::mean() const { return sum_ / static_cast<double>(std::max<int64_t>(count_, 1)); }

at::Tensor Moments::covariance() const {
  return gram_ / static_cast<double>(std::max<int64_t>(count_, 1)) - at::outer(mean(), mean());
}

void CrossMoments::add(const at::Tensor& x, const at::Tensor& y) {
  count_ += x.size(0);
  accumulate(sum_x_, x.sum(0, false, at::kDouble));
  accumulate(sum_y_, y.sum(0, false, at::kDouble));
  accumulate(xx_, product_in_blocks(x, x));
  accumulate(xy_, product_in_blocks(x, y));
}

at::Tensor CrossMoments::mean_x() const { return sum_x_ / static_cast<double>(std::max<int64_t>(count_, 1)); }
at::Tensor CrossMoments::mean_y() const { return sum_y_ / static_cast<double>(std::max<int64_t>(count_, 1)); }

at::Tensor CrossMoments::covariance_xx() const {
  return xx_ / static_cast<double>(std::max<int64_t>(count_, 1)) - at::outer(mean_x(), mean_x());
}

at::Tensor CrossMoments::covariance_xy() const {
  return xy_ / static_cast<double>(std::max<int64_t>(count_, 1)) - at::outer(mean_x(), mean_y());
}

at::Tensor rows_of(const at::Tensor& value, int64_t axis) {
  const at::Tensor last = value.movedim(axis, -1);
  return last.reshape({-1, last.size(-1)});
}

}  // namespace pare
