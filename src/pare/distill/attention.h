// Equally weighted attention (EWA of Park et al. 2020; the activation-based attention transfer of Zagoruyko & Komodakis
// 2017): a layer's channels A^k, all with the same weight, in one map
//
//   M_p = 1/C Σ_k (A^k_p)²
//
// and how far two maps are apart, image by image, whatever their scale: with v = vec(M) and v̂ = v / max(‖v‖, 1e-12),
//
//   R(T, S) = 1/(N P) Σ_n ‖v̂_T − v̂_S‖²  =  mean_n 2 (1 − cos(v_T, v_S)) / P
//
// Channel counts may differ: maps have one channel. Several layers are summed.
#pragma once

#include <ATen/core/Tensor.h>

#include "pare/distill/match.h"

namespace pare {

// [N, C, h, w] to [N, h, w]. Error{shape} for a layer without extent, whose maps would all be alike.
at::Tensor attention_map(const at::Tensor& A);

// R of maps [N, h, w]; nothing flows back into the teacher's. Error{shape} when they differ in size.
at::Tensor map_distance(const at::Tensor& teacher, const at::Tensor& student);

at::Tensor match_attention(const Matched& matched);

}  // namespace pare
