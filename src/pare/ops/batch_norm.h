// Batch normalisation in training, of channels-last images. ATen works on the channels of one pixel at a time, which
// makes few channels slow: in a network that was made narrow, that is most of a training step.
#pragma once

#include <ATen/core/Tensor.h>

namespace pare {

struct BatchNormalized {
  at::Tensor y;
  at::Tensor mean, variance;  // of each channel of the batch, without gradient
};

// Can normalize_batch take it? float32 [n, C, H, W] in channels-last order, not empty; where there are fewer than eight
// channels, of as many pixels as fill eights with them.
bool suits_normalize_batch(const at::Tensor& x);

// y = (x − mean) / √(variance + ε) · scale + shift, each per channel; differentiable twice. The same result for any
// number of threads.
BatchNormalized normalize_batch(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift, double epsilon);

}  // namespace pare
