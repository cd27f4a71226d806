// First and second moments of rows of numbers, summed over batches in double precision.
//
// Regression needs of its data only n, Σx and Σxxᵀ, so memory does not grow with the number of images.
// Pure values; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pare {

class Moments {
 public:
  // `rows` [n, d] of any floating type; every call has the same d.
  void add(const at::Tensor& rows);

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

  int64_t count() const { return count_; }
  at::Tensor mean_x() const;
  at::Tensor mean_y() const;
  at::Tensor covariance_xx() const;  // [p, p]
  at::Tensor covariance_xy() const;  // [p, q]

 private:
  int64_t count_ = 0;
  at::Tensor sum_x_, sum_y_, xx_, xy_;
};

// Activations as rows, one for each place: [N, C, …] with channels on `axis` becomes [N·…, C].
at::Tensor rows_of(const at::Tensor& value, int64_t axis);

}  // namespace pare
