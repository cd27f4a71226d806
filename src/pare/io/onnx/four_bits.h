// ONNX's int4 and uint4: two numbers to a byte, the first in the lower half. In a graph they are int8 and uint8, and
// the DequantizeLinear that reads them has the marker `bits` = 4.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "pare/graph.h"

namespace pare {

inline constexpr const char* kBitsMarker = "bits";

// Nodes that dequantise these tensors are marked.
void mark_four_bits(Graph& graph, const std::set<std::string>& tensors);
// The tensors of marked nodes, whose markers go.
std::set<std::string> take_four_bit_marks(Graph& graph);

bool is_four_bit(int32_t onnx_type);
// The element type of a file for int8 or uint8; Error{unsupported} for others.
int32_t four_bit_type_of(at::ScalarType dtype);

// uint8 [bytes] to int8 or uint8 of these extents, and back. Numbers that four bits can't hold are an Error{format}
// about `where`.
at::Tensor unpack_four_bits(const at::Tensor& bytes, const std::vector<int64_t>& dims, int32_t onnx_type);
at::Tensor pack_four_bits(const at::Tensor& numbers, const std::string& where);

}  // namespace pare
