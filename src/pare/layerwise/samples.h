// Where inputs come from: a fixed number of samples in a fixed order, read a piece at a time, so that what runs over
// them needs memory for a piece only.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace pare {

struct Samples {
  int64_t size = 0;
  // Samples [begin, end), one tensor for each input of the graph. May be called from several threads at once.
  std::function<std::vector<at::Tensor>(int64_t begin, int64_t end)> inputs;
};

// Tensors in memory, one for each input, samples along their first axis.
Samples samples_of(std::vector<at::Tensor> inputs);

// Samples [begin, end) of others.
Samples part_of(const Samples& samples, int64_t begin, int64_t end);

// The samples, then their mirror images: each is as likely as the other. Every input of four axes is turned.
Samples with_mirrored(const Samples& samples);

}  // namespace pare
