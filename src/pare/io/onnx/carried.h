// Elements of types that ATen lacks (ops/dtype.h: uint16, uint32, uint64, integers of four and two bits), as files
// store them: little-endian, and the narrow ones several to a byte, the first in the lowest bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace onnx {
class TensorProto;
}

namespace pare {

// Bytes that so many elements take in a file.
int64_t stored_bytes(int64_t code, int64_t count);

// The elements as their carrier's. Error{unsupported} for a uint64 that does not fit.
at::Tensor expand_stored(std::span<const std::byte> bytes, int64_t code, const std::vector<int64_t>& dims,
                         const std::string& where);
// The bytes of a tensor's typed fields, which hold the same numbers one to an entry, or bytes of them.
std::string stored_in_fields(const onnx::TensorProto& proto, int64_t code, int64_t count, const std::string& where);
// The bytes of carried elements.
std::string pack_stored(const at::Tensor& tensor, int64_t code);

}  // namespace pare
