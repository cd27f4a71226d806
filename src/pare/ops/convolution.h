// Convolution by the attributes of a node, for operators that are one with something around it.
#pragma once

#include <ATen/core/Tensor.h>

#include "pare/ops/op.h"

namespace pare {

// x convolved with w as Conv's attributes of the node say; `bias` may be undefined. Error{shape} names the node.
at::Tensor convolve(const Node& node, const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias);
// The extents of the result.
Shape convolved_dims(const Node& node, const Shape& x, const Shape& w);

}  // namespace pare
