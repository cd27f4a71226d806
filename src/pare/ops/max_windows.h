// The largest value of every window, where windows neither overlap nor reach beyond the border, of channels-last
// images: what most max-pools of a network in training are.
#pragma once

#include <ATen/core/Tensor.h>

namespace pare {

struct Tiling {
  int64_t height = 1;  // of a window, and the way to the next
  int64_t width = 1;
};

// Can max_of_windows take it? float32 [n, C, H, W] in channels-last order, at least eight channels, a whole window.
bool suits_max_of_windows(const at::Tensor& x, const Tiling& tiling);

// [n, C, H/height, W/width] (rounded down), differentiable any number of times. A NaN wins over every number, as in
// at::max_pool2d; of equal values the first does.
at::Tensor max_of_windows(const at::Tensor& x, const Tiling& tiling);

}  // namespace pare
