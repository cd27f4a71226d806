// Element types: ONNX's numbers and ATen's.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>

namespace pare {

// The carrier (ops/dtype.h) of types that ATen lacks; nothing where there is none (string, complex, float8…).
std::optional<at::ScalarType> scalar_type_of_onnx(int32_t data_type);
// Error{unsupported} when ONNX has no such type.
int32_t onnx_type_of(at::ScalarType dtype);
// "float16", "string", or "type 99".
std::string onnx_type_name(int32_t data_type);
// The number of a type that old files spell in capitals ("FLOAT"), or 0.
int32_t onnx_type_of_name(const std::string& name);

}  // namespace pare
