#include "pare/ops/dtype.h"

#include <ATen/ATen.h>

#include <limits>

#include "pare/error.h"

namespace pare {

at::ScalarType dtype_from_onnx(int64_t code, const Node& node) {
  switch (code) {
    case 1: return at::kFloat;
    case 2: return at::kByte;
    case 3: return at::kChar;
    case 5: return at::kShort;
    case 6: return at::kInt;
    case 7: return at::kLong;
    case 9: return at::kBool;
    case 10: return at::kHalf;
    case 11: return at::kDouble;
    case 16: return at::kBFloat16;
    default: throw Error(ErrorKind::unsupported, describe(node), "has no support for ONNX's element type {}", code);
  }
}

at::Tensor widened(const at::Tensor& x) {
  const bool half = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
  return half ? x.to(at::kFloat) : x;
}

at::Tensor as_real(const at::Tensor& x) { return x.is_floating_point() ? widened(x) : x.to(at::kDouble); }

at::Tensor narrowed(const at::Tensor& x, at::ScalarType dtype) { return x.scalar_type() == dtype ? x : x.to(dtype); }

namespace {

template <typename T>
at::Scalar bound(bool high) {
  using Limits = std::numeric_limits<T>;
  return static_cast<int64_t>(high ? Limits::max() : Limits::lowest());
}

at::Scalar bound_of(at::ScalarType dtype, bool high) {
  switch (dtype) {
    case at::kByte: return bound<uint8_t>(high);
    case at::kChar: return bound<int8_t>(high);
    case at::kShort: return bound<int16_t>(high);
    case at::kInt: return bound<int32_t>(high);
    case at::kLong: return bound<int64_t>(high);
    case at::kBool: return high;
    default: return high ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
  }
}

}  // namespace

at::Scalar lowest_of(at::ScalarType dtype) { return bound_of(dtype, false); }
at::Scalar highest_of(at::ScalarType dtype) { return bound_of(dtype, true); }

}  // namespace pare
