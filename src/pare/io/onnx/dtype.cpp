#include "pare/io/onnx/dtype.h"

#include <onnx/onnx_pb.h>

#include "pare/error.h"
#include "pare/ops/dtype.h"

namespace pare {

namespace {

struct DtypePair {
  int32_t onnx;
  at::ScalarType aten;
};

constexpr DtypePair kDtypes[] = {
    {onnx::TensorProto::FLOAT, at::kFloat},  {onnx::TensorProto::DOUBLE, at::kDouble},
    {onnx::TensorProto::FLOAT16, at::kHalf}, {onnx::TensorProto::BFLOAT16, at::kBFloat16},
    {onnx::TensorProto::INT8, at::kChar},    {onnx::TensorProto::INT16, at::kShort},
    {onnx::TensorProto::INT32, at::kInt},    {onnx::TensorProto::INT64, at::kLong},
    {onnx::TensorProto::UINT8, at::kByte},   {onnx::TensorProto::BOOL, at::kBool},
};

// In the order of onnx::TensorProto::DataType, with those that came after libonnx 1.12.
constexpr const char* kDtypeNames[] = {
    "undefined", "float",      "uint8",      "int8",         "uint16",         "int16",      "int32",
    "int64",     "string",     "bool",       "float16",      "double",         "uint32",     "uint64",
    "complex64", "complex128", "bfloat16",   "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
    "uint4",     "int4",       "float4e2m1", "float8e8m0",   "uint2",          "int2",
};

}  // namespace

std::optional<at::ScalarType> scalar_type_of_onnx(int32_t data_type) {
  for (const auto& pair : kDtypes)
    if (pair.onnx == data_type) return pair.aten;
  const auto carried = carried_type(data_type);
  return carried ? std::optional(carried->carrier) : std::nullopt;
}

int32_t onnx_type_of(at::ScalarType dtype) {
  for (const auto& pair : kDtypes)
    if (pair.aten == dtype) return pair.onnx;
  throw Error(ErrorKind::unsupported, "ONNX", "has no element type for {}", c10::toString(dtype));
}

std::string onnx_type_name(int32_t data_type) {
  if (data_type >= 0 && data_type < static_cast<int32_t>(std::size(kDtypeNames))) return kDtypeNames[data_type];
  return fmt::format("type {}", data_type);
}

int32_t onnx_type_of_name(const std::string& name) {
  onnx::TensorProto::DataType type{};
  return onnx::TensorProto::DataType_Parse(name, &type) ? static_cast<int32_t>(type) : 0;
}

}  // namespace pare
