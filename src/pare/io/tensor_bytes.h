// The dtypes that files and ATen share, and tensors made over raw little-endian bytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <span>
#include <string_view>

#include "pare/io/byte_source.h"

namespace pare {

// As many as NumPy allows, and more than any layer has.
inline constexpr size_t kMostDimensions = 32;

struct TensorDtype {
  c10::ScalarType type;
  uint64_t size;                 // bytes of one element
  std::string_view safetensors;  // "F32"
  std::string_view npy;          // "f4" after the byte order; empty where .npy has no such type
  std::string_view storage;      // "FloatStorage" in module torch
};

std::span<const TensorDtype> tensor_dtypes();
const TensorDtype* find_dtype(c10::ScalarType type);  // null when files have no name for it

// The size in bytes of a shape. Throws Error{format} naming the tensor when a dimension is negative, there are more
// than 32 of them, or the product overflows (zeros do not hide an overflow).
uint64_t checked_byte_count(const ByteSource& source, std::string_view tensor, std::span<const int64_t> shape,
                            const TensorDtype& dtype);

// A contiguous tensor over `data`, which is a part of the source and has exactly the bytes of the shape. Shares the
// source's memory when the address is aligned for the dtype, and copies otherwise. Booleans other than 0 and 1 are
// refused with Error{format}.
at::Tensor tensor_over(const ByteSource& source, std::string_view tensor, std::span<const std::byte> data,
                       std::span<const int64_t> shape, const TensorDtype& dtype);

// The dtype of a tensor that is to be written; Error{unsupported} names the tensor when files have no name for it.
const TensorDtype& writable_dtype(const std::string& where, std::string_view name, const at::Tensor& tensor);

}  // namespace pare
