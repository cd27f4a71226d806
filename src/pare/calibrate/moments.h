// Means and variances of channels, over batches.
//
// Memory does not grow with the number of images. Each batch is centred at its own mean, and two parts a, b are joined
// by
//   M = M_a + M_b + n_a n_b/(n_a + n_b) δ²,   δ = mean_b − mean_a                   (Chan, Golub & LeVeque 1979)
// in double precision: nothing is lost where a deviation is small beside its mean. Ranks that share the images each add
// their own; `sum_over`, which every rank calls, makes them the moments of all. Pure values; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "pare/dist/process_group.h"

namespace pare {

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
