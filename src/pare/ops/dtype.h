// Element types: ONNX's codes for them, the detour through float for those that ATen has few kernels for, and the wider
// integers that carry those it does not have.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "pare/graph.h"

namespace pare {

// The ATen type of an onnx::TensorProto::DataType, the carrier where it has none. Error{unsupported} names the node for
// strings, float8 and the like.
at::ScalarType dtype_from_onnx(int64_t code, const Node& node);

// uint16, uint32, uint64 and integers of four and two bits: their numbers lie in the next wider type that ATen has, and
// results wrap round as in their own. Of uint64 only the lower half is there.
struct CarriedType {
  at::ScalarType carrier;
  int bits;
  bool is_signed;
};
std::optional<CarriedType> carried_type(int64_t code);  // nothing for types that ATen has
// Whole numbers as those of the carried type, modulo its range. Error{unsupported} names the node for a uint64 that is
// too large.
at::Tensor wrapped(const at::Tensor& x, int64_t code, const Node& node);
// The code of a carried type that an attribute of the node names as that of its output; 0 for another, nothing where
// none is named.
std::optional<int32_t> named_type(const Node& node);
// Does the node make such a type, or read one that the graph holds? Runs alone know how to go on with it.
bool reads_carried(const Node& node, const Graph& graph);

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
