// Indices into tensors, checked before anything is read or written by them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "pare/ops/op.h"

namespace pare {

// The indices as int64, negative ones counted from the end. Error{format} names the node when one is outside `extent`.
at::Tensor checked_indices(const at::Tensor& indices, int64_t extent, const Node& node);

// Tuples of indices [..., m] into axes first … first + m - 1 of `dims`, as flat positions in row-major order [...].
at::Tensor flat_positions(const at::Tensor& tuples, at::IntArrayRef dims, int64_t first, const Node& node);

}  // namespace pare
