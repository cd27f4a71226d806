// Layers computed by oneDNN directly: weights packed once, the bias applied while the result is in registers, where
// ATen packs anew at every call; and a matrix product, which has kernels here that its twin in BLAS may not have for
// this processor. Forward only: no gradient.
//
// onednn.cpp is built where oneDNN's headers are, no_onednn.cpp otherwise: then no layer is available, and a product is
// ATen's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pare {

bool onednn_available();

// A weight [out, in] of floats in the order oneDNN wants it, as a flat tensor.
at::Tensor pack_linear_weight(const at::Tensor& weight);

struct PackedLinear {
  const at::Tensor& weight;  // from pack_linear_weight
  const at::Tensor& bias;    // [out], or undefined
  int64_t in = 0;
  int64_t out = 0;
  bool relu = false;
};

// x [rows, in] -> [rows, out]. Any thread; uses as many threads as OpenMP gives the caller.
at::Tensor run_packed_linear(const at::Tensor& x, const PackedLinear& layer);

// xᵀ y of rows [n, a] and [n, b] of floats, whose entries may lie apart from row to row.
at::Tensor transposed_product(const at::Tensor& x, const at::Tensor& y);

}  // namespace pare
