// Masks: which weights of a network are kept. One bool tensor per masked tensor, of its shape, by its name.
//
// Sparsity S over d masked weights means that exactly round((1 − S)·d) are kept. Where scores are equal the larger
// second score is kept, then the earlier place, so that the count is exact.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "pare/core/options.h"
#include "pare/graph.h"
#include "pare/io/named_tensors.h"
#include "pare/sparsify.h"  // IWYU pragma: export
#include "pare/sparsify/pattern.h"

namespace pare {

// The weights of Conv, ConvTranspose, Gemm and MatMul, in the order of the graph, without the last linear layer unless
// asked for. Error{usage} when a glob matches none, or nothing is left.
std::vector<std::string> maskable_tensors(const Graph& graph, const MaskOptions& options);

// How many weights of each tensor are kept.
//   global    the scores decide over all tensors at once
//   uniform   the same part of every tensor
//   erk       Erdős–Rényi kernel (Evci et al. 2020): density ∝ Σ of the extents / Π of the extents, full where that is
//             above one
// A tensor keeps at least one weight unless allow_empty is set.
TensorMap masks_by_score(const TensorMap& scores, const TensorMap& second, double sparsity, const MaskOptions& options);

// The part of tensor `shape`s kept under erk at this sparsity: in [0, 1], Σ density·size = (1 − S)·Σ size.
std::vector<double> erk_densities(const std::vector<std::vector<int64_t>>& shapes, double sparsity);

// |w| of the tensors.
TensorMap magnitudes(const TensorMap& weights, const std::vector<std::string>& names);

SparsityReport sparsity_of(const Graph& graph, const TensorMap& masks);

// The graph with exact zeros where the masks are false.
Graph masked(const Graph& graph, const TensorMap& masks);
// Masks of the weights that are not zero.
TensorMap nonzero_masks(const Graph& graph, const std::vector<std::string>& names);

// A safetensors file: one byte tensor per mask (bits, lowest first), shapes in the metadata, and the recipe.
struct MaskFile {
  TensorMap masks;
  std::string recipe;  // JSON: the method and its options
};
NamedTensors packed_masks(const MaskFile& file);
void write_masks(const std::filesystem::path& path, const MaskFile& file);
MaskFile read_masks(const std::filesystem::path& path);

}  // namespace pare
