#include "pare/io/onnx/four_bits.h"

#include <ATen/ATen.h>

#include "pare/error.h"

namespace pare {

namespace {

constexpr int32_t kUint4 = 21, kInt4 = 22;  // of onnx::TensorProto, newer than libonnx 1.12

}  // namespace

void mark_four_bits(Graph& graph, const std::set<std::string>& tensors) {
  if (tensors.empty()) return;
  for (auto& node : graph.nodes)
    if (node.op == "DequantizeLinear" && node.domain.empty() && node.has_input(0) && tensors.contains(node.inputs[0]))
      node.attributes[kBitsMarker] = int64_t{4};
}

std::set<std::string> take_four_bit_marks(Graph& graph) {
  std::set<std::string> tensors;
  for (auto& node : graph.nodes) {
    if (node.op != "DequantizeLinear" || node.attributes.erase(kBitsMarker) == 0) continue;
    for (const size_t input : {size_t{0}, size_t{2}})
      if (node.has_input(input) && graph.is_constant(node.inputs[input])) tensors.insert(node.inputs[input]);
  }
  return tensors;
}

bool is_four_bit(int32_t onnx_type) { return onnx_type == kUint4 || onnx_type == kInt4; }

int32_t four_bit_type_of(at::ScalarType dtype) {
  if (dtype == at::kChar) return kInt4;
  if (dtype == at::kByte) return kUint4;
  throw Error(ErrorKind::unsupported, "ONNX", "has no type of four bits for {}", c10::toString(dtype));
}

at::Tensor unpack_four_bits(const at::Tensor& bytes, const std::vector<int64_t>& dims, int32_t onnx_type) {
  const bool is_signed = onnx_type == kInt4;
  at::Tensor numbers = at::empty(dims, is_signed ? at::kChar : at::kByte);
  const auto* from = bytes.data_ptr<uint8_t>();
  auto* to = static_cast<uint8_t*>(numbers.data_ptr());
  for (int64_t i = 0; i < numbers.numel(); ++i) {
    const int half = from[i / 2] >> (i % 2 == 0 ? 0 : 4) & 15;
    to[i] = static_cast<uint8_t>(is_signed && half > 7 ? half - 16 : half);
  }
  return numbers;
}

at::Tensor pack_four_bits(const at::Tensor& numbers, const std::string& where) {
  const bool is_signed = four_bit_type_of(numbers.scalar_type()) == kInt4;
  const at::Tensor dense = numbers.detach().cpu().contiguous();
  at::Tensor bytes = at::zeros({(dense.numel() + 1) / 2}, at::kByte);
  const auto* from = static_cast<const uint8_t*>(dense.data_ptr());
  auto* to = bytes.data_ptr<uint8_t>();
  for (int64_t i = 0; i < dense.numel(); ++i) {
    const int number = is_signed ? static_cast<int8_t>(from[i]) : from[i];
    if (number < (is_signed ? -8 : 0) || number > (is_signed ? 7 : 15))
      throw Error(ErrorKind::format, where, "holds {}, which four bits can't", number);
    to[i / 2] = static_cast<uint8_t>(to[i / 2] | (number & 15) << (i % 2 == 0 ? 0 : 4));
  }
  return bytes;
}

}  // namespace pare
