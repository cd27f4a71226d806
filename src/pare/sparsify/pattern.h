// N:M sparsity: of every M neighbouring inputs of an output at most N are kept. Neighbours lie along the axis that the
// layer sums over, which is not the same for every operator:
//
//   Conv [out, in/g, …], Gemm with transB [out, in]   1
//   ConvTranspose [in, out/g, …]                      0, each of its g groups apart
//   Gemm [in, out], MatMul […, in, out]               the last but one
//   MatMul from the left […, out, in]                 the last
//
// Inputs that fill no group of M stay, and so does a tensor that two layers read along different axes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pare/graph.h"
#include "pare/sparsify.h"

namespace pare {

struct Pattern {
  int64_t keep = 0;   // N
  int64_t block = 0;  // M
  double sparsity() const { return 1 - static_cast<double>(keep) / static_cast<double>(block); }
};
// "2:4". Error{usage} unless 0 < N < M.
Pattern parse_pattern(const std::string& text);

InputAxes input_axes(const Graph& graph, const std::vector<std::string>& tensors);

// The N best of every M, bool of the scores' shape; where they are equal the earlier.
at::Tensor pattern_mask(const at::Tensor& score, const Pattern& pattern, const InputAxis& along);

// What the pattern leaves dense, a sentence each: tensors with a remainder or without an axis.
std::vector<std::string> left_dense(const TensorMap& tensors, const Pattern& pattern, const InputAxes& axes);

}  // namespace pare
