// First and second moments of rows of numbers, over batches.
//
// Regression needs of its data only n, the mean and Σ(x − mean)(x − mean)ᵀ, so memory does not grow with the number of
// images. Each batch is centred at its own mean before it is multiplied, and two parts a, b are joined by
//   M = M_a + M_b + n_a n_b/(n_a + n_b) δδᵀ,   δ = mean_b − mean_a                  (Chan, Golub & LeVeque 1979)
// in double precision: nothing is lost where a deviation is small beside its mean. Ranks that share the images each add
// their own; `sum_over`, which every rank calls, makes them the moments of all. Pure values; any thread.
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
  at::Tensor mean() const { return mean_; }  // [d]
  at::Tensor covariance() const;             // [d, d], of the population

 private:
  int64_t count_ = 0;
  at::Tensor mean_, products_;
};

// Moments between inputs x [n, p] and targets y [n, q]: what least squares needs.
class CrossMoments {
 public:
  void add(const at::Tensor& x, const at::Tensor& y);
  void sum_over(ProcessGroup& ranks);

  int64_t count() const { return count_; }
  at::Tensor mean_x() const { return mean_x_; }
  at::Tensor mean_y() const { return mean_y_; }
  at::Tensor covariance_xx() const;  // [p, p]
  at::Tensor covariance_xy() const;  // [p, q]

 private:
  int64_t count_ = 0;
  at::Tensor mean_x_, mean_y_, xx_, xy_;
};

// Mean and variance of every channel.
class ChannelMoments {
 public:
  void add(const at::Tensor& value);  // [N, C, …]
  void sum_over(ProcessGroup& ranks);

  at::Tensor mean() const { return mean_; }  // [C]
  at::Tensor variance() const;               // [C], of the population
  at::Tensor deviation() const;              // its root

 private:
  int64_t count_ = 0;
  at::Tensor mean_, squares_;
};

// This rank's part of the inputs, all of which every rank has. Error{usage} when there are fewer of them than ranks.
std::vector<at::Tensor> own_part(const std::vector<at::Tensor>& inputs, const ProcessGroup& ranks);

// Activations as rows, one for each place: [N, C, …] with channels on `axis` becomes [N·…, C].
at::Tensor rows_of(const at::Tensor& value, int64_t axis);

}  // namespace pare
