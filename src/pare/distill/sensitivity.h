// Sensitivity weighted attention (SWA) and its stochastic form (SSWA), Park et al. 2020. A channel's weight is what a
// class score z_c gains by it:
//
//   a_k = Σ_p dz_c/dA^k_p,    M_p = ReLU(Σ_k a_k A^k_p)
//
// c is the teacher's top class of each image, for both networks. Each has its own sensitivities; the student's are part
// of what is differentiated (a second derivative), the teacher's map is a constant. Maps are compared as in
// attention.h.
//
// SSWA leaves ⌊ρC⌋ channels, drawn anew for every batch, out of the teacher's map: m_k A^k with the a_k of the intact
// teacher. The student is not masked.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "pare/distill/match.h"

namespace pare {

// dz_c/dA for each layer A, differentiable itself where asked for. Error{usage} when the scores do not depend on one.
std::vector<at::Tensor> score_gradients(const Observation& seen, const at::Tensor& classes, bool differentiable);

// A with ⌊ρC⌋ channels set to zero, the same ones for all images, drawn from ATen's generator.
at::Tensor without_channels(const at::Tensor& A, double rho);

at::Tensor match_sensitivity(const Matched& matched);
at::Tensor match_stochastic_sensitivity(const Matched& matched);

}  // namespace pare
