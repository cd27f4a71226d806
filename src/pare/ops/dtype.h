// Element types: ONNX's codes for them, and the detour over float for those that ATen has few kernels for.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "pare/graph.h"

namespace pare {

// The ATen type of an onnx::TensorProto::DataType. Error{unsupported} names the node when ATen has none (strings,
// uint16, float8…).
at::ScalarType dtype_from_onnx(int64_t code, const Node& node);

// Half precision as float (few CPU kernels know it); every other type as it is.
at::Tensor widened(const at::Tensor& x);
// Half precision and integers as float or double, for functions that need real numbers.
at::Tensor as_real(const at::Tensor& x);
// Back to the type that the operator promises. Integers are cut off, not rounded.
at::Tensor narrowed(const at::Tensor& x, at::ScalarType dtype);

// The smallest and the largest number of a type; infinities for floating point.
at::Scalar lowest_of(at::ScalarType dtype);
at::Scalar highest_of(at::ScalarType dtype);

}  // namespace pare
