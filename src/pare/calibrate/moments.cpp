#include "pare/calibrate/moments.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "pare/core/error.h"

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

// A count and sums, in one message.
void sum_together(ProcessGroup& ranks, int64_t& count, const std::vector<at::Tensor*>& sums) {
  if (ranks.alone()) return;
  std::vector<at::Tensor> parts = {at::full({1}, static_cast<double>(count), at::kDouble)};
  for (const at::Tensor* sum : sums) parts.push_back(sum->reshape({-1}));
  const at::Tensor all = at::cat(parts);
  ranks.sum(all);
  count = static_cast<int64_t>(all[0].item<double>());
  int64_t at = 1;
  for (at::Tensor* sum : sums) {
    const int64_t size = sum->numel();
    *sum = all.narrow(0, at, size).reshape(sum->sizes());
    at += size;
  }
}

double at_least_one(int64_t count) { return static_cast<double>(std::max<int64_t>(count, 1)); }

}  // namespace

void Moments::add(const at::Tensor& rows) {
  count_ += rows.size(0);
  accumulate(sum_, rows.sum(0, false, at::kDouble));
  accumulate(gram_, product_in_blocks(rows, rows));
}

void Moments::sum_over(ProcessGroup& ranks) { sum_together(ranks, count_, {&sum_, &gram_}); }

at::Tensor Moments::mean() const { return sum_ / at_least_one(count_); }

at::Tensor Moments::covariance() const { return gram_ / at_least_one(count_) - at::outer(mean(), mean()); }

void CrossMoments::add(const at::Tensor& x, const at::Tensor& y) {
  count_ += x.size(0);
  accumulate(sum_x_, x.sum(0, false, at::kDouble));
  accumulate(sum_y_, y.sum(0, false, at::kDouble));
  accumulate(xx_, product_in_blocks(x, x));
  accumulate(xy_, product_in_blocks(x, y));
}

void CrossMoments::sum_over(ProcessGroup& ranks) { sum_together(ranks, count_, {&sum_x_, &sum_y_, &xx_, &xy_}); }

at::Tensor CrossMoments::mean_x() const { return sum_x_ / at_least_one(count_); }
at::Tensor CrossMoments::mean_y() const { return sum_y_ / at_least_one(count_); }

at::Tensor CrossMoments::covariance_xx() const { return xx_ / at_least_one(count_) - at::outer(mean_x(), mean_x()); }

at::Tensor CrossMoments::covariance_xy() const { return xy_ / at_least_one(count_) - at::outer(mean_x(), mean_y()); }

void ChannelMoments::add(const at::Tensor& value) {
  const at::Tensor rows = rows_of(value, 1).to(at::kDouble);
  count_ += rows.size(0);
  accumulate(sum_, rows.sum(0));
  accumulate(squares_, rows.square().sum(0));
}

void ChannelMoments::sum_over(ProcessGroup& ranks) { sum_together(ranks, count_, {&sum_, &squares_}); }

at::Tensor ChannelMoments::mean() const { return sum_ / at_least_one(count_); }

at::Tensor ChannelMoments::variance() const { return (squares_ / at_least_one(count_) - mean().square()).clamp_min(0); }

at::Tensor ChannelMoments::deviation() const { return variance().sqrt(); }

std::vector<at::Tensor> own_part(const std::vector<at::Tensor>& inputs, const ProcessGroup& ranks) {
  if (ranks.alone() || inputs.empty()) return inputs;
  const int64_t count = inputs[0].size(0);
  if (count < ranks.size())
    throw Error(ErrorKind::usage, "--samples", "{} images are too few for {} ranks", count, ranks.size());
  const auto begin_of = [&](int64_t rank) { return count * rank / ranks.size(); };
  std::vector<at::Tensor> own;
  own.reserve(inputs.size());
  for (const at::Tensor& input : inputs)
    own.push_back(input.slice(0, begin_of(ranks.rank()), begin_of(ranks.rank() + 1)));
  return own;
}

at::Tensor rows_of(const at::Tensor& value, int64_t axis) {
  const at::Tensor last = value.movedim(axis, -1);
  return last.reshape({-1, last.size(-1)});
}

}  // namespace pare
