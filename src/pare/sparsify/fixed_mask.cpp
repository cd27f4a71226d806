#include "pare/sparsify/fixed_mask.h"

#include <ATen/ATen.h>

namespace pare {

FixedMask::FixedMask(const TensorMap& masks) {
  for (const auto& [name, mask] : masks)
    masks_[name] =
        mask.dim() == 4 ? mask.to(at::kFloat).contiguous(at::MemoryFormat::ChannelsLast) : mask.to(at::kFloat);
}

TensorMap FixedMask::effective(const TensorMap& raw, const TrainPosition&) const {
  TensorMap result = raw;
  for (const auto& [name, mask] : masks_) result[name] = raw.at(name) * mask;
  return result;
}

}  // namespace pare
