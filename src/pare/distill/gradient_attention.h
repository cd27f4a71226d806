// Gradient-based attention transfer (Zagoruyko & Komodakis 2017): the gradients of both networks' losses with respect
// to the image, J = dL/dx, are drawn together,
//
//   1/N Σ_n ½ ‖J_S,n − J_T,n‖₂        (L of each image, not of the batch's mean)
//
// which differentiates the student twice. Unlike sensitivity.h it looks at the input and at the loss, which vanishes
// where a network is sure.
#pragma once

#include <ATen/core/Tensor.h>

#include "pare/distill/match.h"

namespace pare {

// dL/dx of each image, differentiable itself where asked for.
at::Tensor loss_gradient(const Observation& seen, const at::Tensor& labels, bool differentiable);

at::Tensor match_loss_gradients(const Matched& matched);

}  // namespace pare
