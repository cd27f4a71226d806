#include "pare/calibrate/moments.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "pare/error.h"

namespace pare {

namespace {

// Rows are multiplied in single precision a block at a time and the blocks are summed in double: the products are a
// matrix product at full speed, the long sum loses nothing.
constexpr int64_t kBlockRows = 4096;

at::Tensor product_in_blocks(const at::Tensor& x, const at::Tensor& y) {
  if (x.scalar_type() == at::kDouble && y.scalar_type() == at::kDouble) return at::mm(x.t(), y);
  at::Tensor sum = at::zeros({x.size(1), y.size(1)}, at::kDouble);
  for (int64_t begin = 0; begin < x.size(0); begin += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, x.size(0) - begin);
    sum += at::mm(x.narrow(0, begin, rows).t(), y.narrow(0, begin, rows));
  }
  return sum;
}

double number(int64_t count) { return static_cast<double>(count); }
double at_least_one(int64_t count) { return number(std::max<int64_t>(count, 1)); }

// Rows less their mean as near as their type has it, and what that leaves of the mean.
struct Centred {
  at::Tensor rows;
  at::Tensor mean;
  at::Tensor rest;

  Centred(const at::Tensor& given, at::ScalarType dtype)
      : mean(given.sum(0, false, at::kDouble) / at_least_one(given.size(0))) {
    const at::Tensor near = mean.to(dtype);
    rows = given.to(dtype) - near;
    rest = mean - near;
  }

  // Σ (x − mean x)(y − mean y)ᵀ
  at::Tensor products(const Centred& other) const {
    return product_in_blocks(rows, other.rows) - number(rows.size(0)) * at::outer(rest, other.rest);
  }
};

// Half precision has few kernels and few digits: float. What is in double stays.
at::ScalarType product_type(const at::Tensor& x, const at::Tensor& y) {
  return x.scalar_type() == at::kDouble || y.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// The mean of `had` rows becomes that of `more` others too; returns how far that of the others lay from it.
at::Tensor join_mean(at::Tensor& mean, const at::Tensor& other, int64_t had, int64_t more) {
  if (!mean.defined()) mean = at::zeros_like(other);
  const at::Tensor distance = other - mean;
  mean = mean + distance * (number(more) / at_least_one(had + more));
  return distance;
}

void join_products(at::Tensor& total, const at::Tensor& other, const at::Tensor& between, int64_t had, int64_t more) {
  const at::Tensor joined = other + between * (number(had) * number(more) / at_least_one(had + more));
  total = total.defined() ? total + joined : joined;
}

// Tensors in one message.
void sum_together(ProcessGroup& ranks, const std::vector<at::Tensor*>& sums) {
  std::vector<at::Tensor> parts;
  parts.reserve(sums.size());
  for (const at::Tensor* sum : sums) parts.push_back(sum->reshape({-1}));
  const at::Tensor all = at::cat(parts);
  ranks.sum(all);
  int64_t at = 0;
  for (at::Tensor* sum : sums) {
    const int64_t size = sum->numel();
    *sum = all.narrow(0, at, size).reshape(sum->sizes());
    at += size;
  }
}

// Count and means become those of all ranks; returns how far the own means lie from them.
std::vector<at::Tensor> sum_means(ProcessGroup& ranks, int64_t& count, const std::vector<at::Tensor*>& means) {
  at::Tensor counts = at::full({1}, number(count), at::kDouble);
  std::vector<at::Tensor> own;
  std::vector<at::Tensor*> sums = {&counts};
  for (at::Tensor* mean : means) {
    own.push_back(*mean);
    *mean = *mean * number(count);
    sums.push_back(mean);
  }
  sum_together(ranks, sums);
  count = static_cast<int64_t>(counts.item<double>());
  for (size_t i = 0; i < means.size(); ++i) {
    *means[i] = *means[i] / at_least_one(count);
    own[i] = own[i] - *means[i];
  }
  return own;
}

}  // namespace

void Moments::add(const at::Tensor& rows) {
  const Centred x(rows, product_type(rows, rows));
  const at::Tensor d = join_mean(mean_, x.mean, count_, rows.size(0));
  join_products(products_, x.products(x), at::outer(d, d), count_, rows.size(0));
  count_ += rows.size(0);
}

void Moments::sum_over(ProcessGroup& ranks) {
  if (ranks.alone()) return;
  const double own = number(count_);
  const auto d = sum_means(ranks, count_, {&mean_});
  products_ = products_ + own * at::outer(d[0], d[0]);
  sum_together(ranks, {&products_});
}

at::Tensor Moments::covariance() const { return products_ / at_least_one(count_); }

void CrossMoments::add(const at::Tensor& x, const at::Tensor& y) {
  const auto dtype = product_type(x, y);
  const Centred a(x, dtype);
  const Centred b(y, dtype);
  const int64_t more = x.size(0);
  const at::Tensor dx = join_mean(mean_x_, a.mean, count_, more);
  const at::Tensor dy = join_mean(mean_y_, b.mean, count_, more);
  join_products(xx_, a.products(a), at::outer(dx, dx), count_, more);
  join_products(xy_, a.products(b), at::outer(dx, dy), count_, more);
  count_ += more;
}

void CrossMoments::sum_over(ProcessGroup& ranks) {
  if (ranks.alone()) return;
  const double own = number(count_);
  const auto d = sum_means(ranks, count_, {&mean_x_, &mean_y_});
  xx_ = xx_ + own * at::outer(d[0], d[0]);
  xy_ = xy_ + own * at::outer(d[0], d[1]);
  sum_together(ranks, {&xx_, &xy_});
}

at::Tensor CrossMoments::covariance_xx() const { return xx_ / at_least_one(count_); }
at::Tensor CrossMoments::covariance_xy() const { return xy_ / at_least_one(count_); }

void ChannelMoments::add(const at::Tensor& value) {
  const Centred x(rows_of(value, 1), at::kDouble);
  const at::Tensor d = join_mean(mean_, x.mean, count_, x.rows.size(0));
  join_products(squares_, x.rows.square().sum(0), d.square(), count_, x.rows.size(0));
  count_ += x.rows.size(0);
}

void ChannelMoments::sum_over(ProcessGroup& ranks) {
  if (ranks.alone()) return;
  const double own = number(count_);
  const auto d = sum_means(ranks, count_, {&mean_});
  squares_ = squares_ + own * d[0].square();
  sum_together(ranks, {&squares_});
}

at::Tensor ChannelMoments::variance() const { return squares_ / at_least_one(count_); }

at::Tensor ChannelMoments::deviation() const { return variance().sqrt(); }

std::vector<at::Tensor> own_part(const std::vector<at::Tensor>& inputs, const ProcessGroup& ranks) {
  if (ranks.alone() || inputs.empty()) return inputs;
  const int64_t count = inputs[0].size(0);
  if (count < ranks.size())
    throw Error(ErrorKind::usage, OptionName{"samples"}, "{} images are too few for {} ranks", count, ranks.size());
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
