#include "pare/ops/dtype.h"

#include <ATen/ATen.h>

#include <algorithm>
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
    default: break;
  }
  if (const auto carried = carried_type(code)) return carried->carrier;
  throw Error(ErrorKind::unsupported, describe(node), "has no support for ONNX's element type {}", code);
}

std::optional<CarriedType> carried_type(int64_t code) {
  switch (code) {
    case 4: return CarriedType{at::kInt, 16, false};
    case 12: return CarriedType{at::kLong, 32, false};
    case 13: return CarriedType{at::kLong, 64, false};
    case 21: return CarriedType{at::kByte, 4, false};
    case 22: return CarriedType{at::kChar, 4, true};
    case 25: return CarriedType{at::kByte, 2, false};
    case 26: return CarriedType{at::kChar, 2, true};
    default: return std::nullopt;
  }
}

at::Tensor wrapped(const at::Tensor& x, int64_t code, const Node& node) {
  const CarriedType type = carried_type(code).value();
  at::Tensor whole = x.to(at::kLong);
  if (type.bits == 64) {
    if (whole.numel() > 0 && whole.min().item<int64_t>() < 0)
      throw Error(ErrorKind::unsupported, describe(node), "makes a uint64 over {}, which pare does not hold",
                  INT64_MAX);
    return whole;
  }
  const int64_t half = int64_t{1} << (type.bits - 1);
  whole = at::bitwise_and(whole + (type.is_signed ? half : 0), 2 * half - 1) - (type.is_signed ? half : 0);
  return whole.to(type.carrier);
}

std::optional<int32_t> named_type(const Node& node) {
  for (const char* name : {"to", "dtype", "output_dtype", "output_datatype"})
    if (const auto found = node.attributes.find(name); found != node.attributes.end())
      if (const auto* code = std::get_if<int64_t>(&found->second); code != nullptr && *code != 0)
        return carried_type(*code) ? static_cast<int32_t>(*code) : 0;
  return std::nullopt;
}

bool reads_carried(const Node& node, const Graph& graph) {
  return named_type(node).value_or(0) != 0 ||
         std::ranges::any_of(node.inputs, [&](const auto& input) { return graph.carried.contains(input); });
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
