// First and second moments of rows of numbers, summed over batches in double precision.
//
// Regression needs of its data only n, Σx and Σxxᵀ, so memory does not grow with the number of images. Ranks that share
// the images each add their own; `sum_over`, which every rank calls, makes them the moments of all.
// Pure values; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "pare/dist/process_group.h"

namespace pare {

class Moments {
 public:
  // `rows` [n, d] of any floating type; every call has the same d.
  void add(const at::Tensor& rows);
  void sum_over(ProcessGroup& ranks);

  int64_t count() const { return count_; }
  at::Tensor mean() const;        // [d]
  at::Tensor covariance() const;  // [d, d], of the population

 private:
  int64_t count_ = 0;
  at::Tensor sum_;
  at::Tensor gram_;
};

// Moments between inputs x [n, p] and targets y [n, q]: what least squares needs.
class CrossMoments {
 public:
  void add(const at::Tensor& x, const at::Tensor& y);
  void sum_over(ProcessGroup& ranks);

  int64_t count() const { return count_; }
  at::Tensor mean_x() const;
  at::Tensor mean_y() const;
  at::Tensor covariance_xx() const;  // [p, p]
  at::Tensor covariance_xy() const;  // [p, q]

 private:
  int64_t count_ = 0;
  at::Tensor sum_x_, sum_y_, xx_, xy_;
};

// Mean and variance of every channel.
class ChannelMoments {
 public:
  void add(const at::Tensor& value);  // [N, C, …]
  void sum_over(ProcessGroup& ranks);

  at::Tensor mean() const;       // [C]
  at::Tensor variance() const;   // [C], of the population
  at::Tensor deviation() const;  // its root

 private:
  int64_t count_ = 0;
  at::Tensor sum_, squares_;
};

// This rank's part of the inputs, which all have. Error{usage} when there are fewer of them than ranks.
std::vector<at::Tensor> own_part(const std::vector<at::Tensor>& inputs, const ProcessGroup& ranks);

// Activations as rows, one for each place: [N, C, …] with channels on `axis` becomes [N·…, C].
at::Tensor rows_of(const at::Tensor& value, int64_t axis);

}  // namespace pare
