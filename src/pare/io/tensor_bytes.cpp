#include "pare/io/tensor_bytes.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <limits>

#include "pare/error.h"

namespace pare {

namespace {

constexpr std::array<TensorDtype, 10> shared_dtypes = {{
    {c10::ScalarType::Double, 8, "F64", "f8", "DoubleStorage"},
    {c10::ScalarType::Float, 4, "F32", "f4", "FloatStorage"},
    {c10::ScalarType::Half, 2, "F16", "f2", "HalfStorage"},
    {c10::ScalarType::BFloat16, 2, "BF16", "", "BFloat16Storage"},
    {c10::ScalarType::Long, 8, "I64", "i8", "LongStorage"},
    {c10::ScalarType::Int, 4, "I32", "i4", "IntStorage"},
    {c10::ScalarType::Short, 2, "I16", "i2", "ShortStorage"},
    {c10::ScalarType::Char, 1, "I8", "i1", "CharStorage"},
    {c10::ScalarType::Byte, 1, "U8", "u1", "ByteStorage"},
    {c10::ScalarType::Bool, 1, "BOOL", "b1", "BoolStorage"},
}};

void check_booleans(const ByteSource& source, std::string_view tensor, std::span<const std::byte> data) {
  const auto odd = std::find_if(data.begin(), data.end(), [](std::byte b) { return std::to_integer<int>(b) > 1; });
  if (odd != data.end())
    throw Error(ErrorKind::format, source.name,
                "tensor '{}' is boolean: expected bytes 0 and 1, found {} at element {}", printable(tensor),
                std::to_integer<int>(*odd), odd - data.begin());
}

}  // namespace

std::span<const TensorDtype> tensor_dtypes() { return shared_dtypes; }

const TensorDtype* find_dtype(c10::ScalarType type) {
  const auto found =
      std::find_if(shared_dtypes.begin(), shared_dtypes.end(), [&](const TensorDtype& d) { return d.type == type; });
  return found == shared_dtypes.end() ? nullptr : &*found;
}

uint64_t checked_byte_count(const ByteSource& source, std::string_view tensor, std::span<const int64_t> shape,
                            const TensorDtype& dtype) {
  if (shape.size() > kMostDimensions)
    throw Error(ErrorKind::format, source.name, "tensor '{}' has {} dimensions, expected at most {}", printable(tensor),
                shape.size(), kMostDimensions);
  uint64_t bytes = dtype.size;  // of the shape with its zeros taken as ones: ATen computes strides that way
  bool empty = false;
  for (const int64_t dimension : shape) {
    if (dimension < 0)
      throw Error(ErrorKind::format, source.name, "tensor '{}' has a dimension of {}", printable(tensor), dimension);
    empty = empty || dimension == 0;
    const auto product = checked_multiply(bytes, static_cast<uint64_t>(std::max<int64_t>(dimension, 1)));
    if (!product || *product > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      throw Error(ErrorKind::format, source.name, "tensor '{}' has a shape of more than 2^63 bytes", printable(tensor));
    bytes = *product;
  }
  return empty ? 0 : bytes;
}

at::Tensor tensor_over(const ByteSource& source, std::string_view tensor, std::span<const std::byte> data,
                       std::span<const int64_t> shape, const TensorDtype& dtype) {
  const uint64_t expected = checked_byte_count(source, tensor, shape, dtype);
  if (data.size() != expected)
    throw Error(ErrorKind::format, source.name, "tensor '{}' needs {} bytes for its shape, found {}", printable(tensor),
                expected, data.size());
  const at::IntArrayRef sizes(shape.data(), shape.size());
  const auto options = at::TensorOptions().dtype(dtype.type);
  if (expected == 0) return at::empty(sizes, options);
  if (dtype.type == c10::ScalarType::Bool) check_booleans(source, tensor, data);
  if (reinterpret_cast<uintptr_t>(data.data()) % dtype.size == 0) {
    // The mapping is private to this process, so the cast cannot reach the file.
    auto* memory = const_cast<std::byte*>(data.data());
    return at::from_blob(
        memory, sizes, [owner = source.owner](void*) {}, options);
  }
  at::Tensor copied = at::empty(sizes, options);
  std::memcpy(copied.data_ptr(), data.data(), data.size());
  return copied;
}

const TensorDtype& writable_dtype(const std::string& where, std::string_view name, const at::Tensor& tensor) {
  if (!tensor.defined()) throw Error(ErrorKind::failed, where, "tensor '{}' is undefined", name);
  const TensorDtype* dtype = find_dtype(tensor.scalar_type());
  if (tensor.layout() != at::kStrided || dtype == nullptr)
    throw Error(ErrorKind::unsupported, where, "tensor '{}' is a {} tensor of {}, which the format has no name for",
                name, tensor.layout() == at::kStrided ? "dense" : "sparse", c10::toString(tensor.scalar_type()));
  return *dtype;
}

}  // namespace pare
