#include "pare/io/onnx/carried.h"

#include <ATen/ATen.h>
#include <onnx/onnx_pb.h>

#include <cstring>

#include "pare/error.h"
#include "pare/ops/dtype.h"

namespace pare {

namespace {

// Element i of the file as a bit pattern.
uint64_t pattern_at(const std::byte* bytes, int bits, int64_t i) {
  if (bits < 8) {
    const int64_t per_byte = 8 / bits;
    const auto byte = static_cast<unsigned>(bytes[i / per_byte]);
    return byte >> (i % per_byte * bits) & ((1U << bits) - 1);
  }
  uint64_t pattern = 0;
  std::memcpy(&pattern, bytes + i * (bits / 8), static_cast<size_t>(bits / 8));
  return pattern;
}

int64_t number_of(uint64_t pattern, const CarriedType& type, const std::string& where) {
  if (type.bits == 64 && pattern > INT64_MAX)
    throw Error(ErrorKind::unsupported, where, "holds the uint64 {}, which pare does not hold", pattern);
  const auto number = static_cast<int64_t>(pattern);
  const bool negative = type.is_signed && (pattern >> (type.bits - 1) & 1) != 0;
  return negative ? number - (int64_t{1} << type.bits) : number;
}

}  // namespace

int64_t stored_bytes(int64_t code, int64_t count) {
  const int bits = carried_type(code).value().bits;
  return bits < 8 ? (count + 8 / bits - 1) / (8 / bits) : count * (bits / 8);
}

at::Tensor expand_stored(std::span<const std::byte> bytes, int64_t code, const std::vector<int64_t>& dims,
                         const std::string& where) {
  const CarriedType type = carried_type(code).value();
  at::Tensor tensor = at::empty(dims, type.carrier);
  const auto fill = [&](auto* to) {
    for (int64_t i = 0; i < tensor.numel(); ++i)
      to[i] = static_cast<std::remove_reference_t<decltype(*to)>>(
          number_of(pattern_at(bytes.data(), type.bits, i), type, where));
  };
  switch (type.carrier) {
    case at::kInt: fill(tensor.data_ptr<int32_t>()); break;
    case at::kLong: fill(tensor.data_ptr<int64_t>()); break;
    case at::kByte: fill(tensor.data_ptr<uint8_t>()); break;
    default: fill(tensor.data_ptr<int8_t>()); break;
  }
  return tensor;
}

std::string stored_in_fields(const onnx::TensorProto& proto, int64_t code, int64_t count, const std::string& where) {
  const CarriedType type = carried_type(code).value();
  const bool wide = type.bits >= 32;
  const int64_t unit = type.bits < 8 ? 1 : type.bits / 8;  // bytes of an entry
  const int64_t entries = wide ? proto.uint64_data_size() : proto.int32_data_size();
  if (entries * unit != stored_bytes(code, count))
    throw Error(ErrorKind::format, where, "has {} elements, but its data has {} entries", count, entries);
  std::string bytes(static_cast<size_t>(entries * unit), '\0');
  for (int64_t i = 0; i < entries; ++i) {
    const auto at = static_cast<int>(i);
    const uint64_t entry = wide ? proto.uint64_data(at) : static_cast<uint64_t>(proto.int32_data(at));
    std::memcpy(bytes.data() + i * unit, &entry, static_cast<size_t>(unit));
  }
  return bytes;
}

std::string pack_stored(const at::Tensor& tensor, int64_t code) {
  const int bits = carried_type(code).value().bits;
  const at::Tensor numbers = tensor.detach().cpu().to(at::kLong).contiguous();
  std::string bytes(static_cast<size_t>(stored_bytes(code, numbers.numel())), '\0');
  for (int64_t i = 0; i < numbers.numel(); ++i) {
    const int64_t number = numbers.data_ptr<int64_t>()[i];
    if (bits >= 8) {
      std::memcpy(bytes.data() + i * (bits / 8), &number, static_cast<size_t>(bits / 8));
      continue;
    }
    const int64_t per_byte = 8 / bits;
    auto& byte = bytes[static_cast<size_t>(i / per_byte)];
    byte = static_cast<char>(static_cast<unsigned char>(byte) | (static_cast<unsigned>(number) & ((1U << bits) - 1))
                                                                    << (i % per_byte * bits));
  }
  return bytes;
}

}  // namespace pare
