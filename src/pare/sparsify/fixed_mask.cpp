#include "pare/sparsify/fixed_mask.h"

#include <ATen/ATen.h>

namespace pare {

FixedMask::FixedMask(const TensorMap& masks) : masks_(masks) {}

TensorMap FixedMask::effective(const TensorMap& raw, const TrainPosition&) const {
  TensorMap result = raw;
  for (auto& [name, mask] : masks_) {
    const at::Tensor& w = raw.at(name);
    if (mask.strides() != w.strides() || mask.scalar_type() != w.scalar_type())
      mask = at::empty_like(w.detach()).copy_(mask);
    result[name] = w * mask;
  }
  return result;
}

}  // namespace pare
