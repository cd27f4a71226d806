#include "pare/calibrate/moments.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "pare/error.h"

namespace pare {

namespace {

double number(int64_t count) { return static_cast<double>(count); }
double at_least_one(int64_t count) { return number(std::max<int64_t>(count, 1)); }

}  // namespace

void ChannelMoments::add(const at::Tensor& value) {
  const at::Tensor rows = rows_of(value, 1).to(at::kDouble);
  const int64_t more = rows.size(0), all = count_ + more;
  const at::Tensor mean = rows.sum(0) / at_least_one(more);
  if (!mean_.defined()) mean_ = at::zeros_like(mean), squares_ = at::zeros_like(mean);
  const at::Tensor distance = mean - mean_;
  mean_ = mean_ + distance * (number(more) / at_least_one(all));
  squares_ = squares_ + (rows - mean).square().sum(0) +
             distance.square() * (number(count_) * number(more) / at_least_one(all));
  count_ = all;
}

// About the mean of all, which the first message makes known.
void ChannelMoments::sum_over(ProcessGroup& ranks) {
  if (ranks.alone()) return;
  const double own = number(count_);
  const at::Tensor sums = at::cat({at::full({1}, own, at::kDouble), mean_ * own});
  ranks.sum(sums);
  count_ = static_cast<int64_t>(sums[0].item<double>());
  const at::Tensor mean = sums.slice(0, 1) / at_least_one(count_);
  squares_ = squares_ + own * (mean_ - mean).square();
  ranks.sum(squares_);
  mean_ = mean;
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
