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

TrainState masked(TrainState state, const TensorMap& masks) {
  const auto apply = [](TensorMap& tensors, const std::string& key, const at::Tensor& mask) {
    if (const auto found = tensors.find(key); found != tensors.end())
      found->second = at::where(mask, found->second, at::zeros({}, found->second.options()));
  };
  for (const auto& [name, mask] : masks) {
    apply(state.raw, name, mask);
    apply(state.average, name, mask);
    for (const auto& key : moment_keys(name)) apply(state.optimizer, key, mask);
  }
  return state;
}

}  // namespace pare
