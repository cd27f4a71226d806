// Few samples stretched to many inputs. A regression on 200 images sees few directions of the input space; images
// between and around them have the same statistics and cost nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace pare {

struct StretchOptions {
  int64_t count = 2000;  // inputs in all, the samples themselves first
  int64_t shift = 2;     // images: moved by up to so many pixels either way
  double noise = 0.1;    // standard deviation of what is added, relative to that of the samples
  uint64_t seed = 0;
};

// Each new input is a mixture of two of the samples, each moved a little, with a little smooth noise. `samples` has one
// tensor per graph input; those of floating point [N, C, H, W] are images. Unchanged when there are `count` already or
// an input is not of floating point.
std::vector<at::Tensor> stretch_samples(const std::vector<at::Tensor>& samples, const StretchOptions& options);

}  // namespace pare
