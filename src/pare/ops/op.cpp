#include "pare/ops/op.h"

#include <ATen/ATen.h>

#include "pare/core/memory.h"

namespace pare {

namespace {

std::vector<int64_t> integer_list(const at::Tensor& tensor, const Node& node, size_t i) {
  if (tensor.is_floating_point() || tensor.dim() > 1)
    throw Error(ErrorKind::format, describe(node), "input {} is not a list of integers", i);
  if (tensor.numel() > 4096)
    throw Error(ErrorKind::format, describe(node), "input {} lists {} integers", i, tensor.numel());
  const at::Tensor list = tensor.to(at::kLong).contiguous();
  return {list.data_ptr<int64_t>(), list.data_ptr<int64_t>() + list.numel()};
}

}  // namespace

bool OpDef::takes(std::string_view attribute) const {
  for (std::string_view rest = attributes; !rest.empty();) {
    const size_t end = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, end) == attribute) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

int64_t TensorType::count() const {
  int64_t n = 1;
  for (const int64_t dim : dims) n *= dim;
  return n;
}

const at::Tensor& EvalContext::in(size_t i) const {
  if (!has(i)) throw Error(ErrorKind::format, describe(node), "input {} is missing", i);
  return inputs[i];
}

std::vector<int64_t> EvalContext::integers(size_t i) const { return integer_list(in(i), node, i); }

const TensorType& InferContext::in(size_t i) const {
  if (!has(i)) throw Error(ErrorKind::format, describe(node), "input {} is missing", i);
  return types[i];
}

std::vector<int64_t> InferContext::integers(size_t i) const {
  in(i);
  if (!values[i].defined()) throw UnknownValue{};
  return integer_list(values[i], node, i);
}

void check_size(const TensorType& type, const std::string& where) {
  uint64_t bytes = c10::elementSize(type.dtype);
  for (const int64_t dim : type.dims)
    if (dim < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes) || bytes > INT64_MAX)
      throw Error(ErrorKind::memory, where, "is {}, larger than any memory", to_string(type));
  if (bytes > memory_left())
    throw Error(ErrorKind::memory, where, "is {} and needs {}; {} are left", to_string(type), bytes_text(bytes),
                bytes_text(memory_left()));
}

std::string to_string(std::span<const int64_t> dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

std::string to_string(const TensorType& type) {
  std::string name = c10::toString(type.dtype);
  switch (type.dtype) {
    case at::kFloat: name = "float32"; break;
    case at::kDouble: name = "float64"; break;
    case at::kHalf: name = "float16"; break;
    case at::kBFloat16: name = "bfloat16"; break;
    case at::kLong: name = "int64"; break;
    case at::kInt: name = "int32"; break;
    case at::kShort: name = "int16"; break;
    case at::kChar: name = "int8"; break;
    case at::kByte: name = "uint8"; break;
    case at::kBool: name = "bool"; break;
    default: break;
  }
  return name + " " + to_string(std::span<const int64_t>(type.dims));
}

}  // namespace pare
