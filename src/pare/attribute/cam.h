// Class activation maps: what a layer's channels A^k say of a class score z_c, with g^k = dz_c/dA^k.
//
//   Grad-CAM     a_k = sum_p g^k_p,  map = ReLU(sum_k a_k A^k)                         Selvaraju et al., ICCV 2017
//   HiResCAM     map = ReLU(sum_k g^k ∘ A^k)                                           Draelos & Carin 2020
//   Grad-CAM++   a_k = sum_p α^k_p ReLU(g^k_p),  α^k_p = (g^k_p)² / (2 (g^k_p)² + (g^k_p)³ sum_q A^k_q),
//                map = ReLU(sum_k a_k A^k)                                              Chattopadhay et al., WACV 2018
//
// Gradients are summed over positions as the attribution paper does; Selvaraju's mean differs by the factor 1/P, which
// no later step sees.
#pragma once

#include <ATen/core/Tensor.h>

namespace pare {

enum class CamKind { grad, hires, grad_plus_plus };

// A and g of [N, K, h, w]; [N, h, w]. `rectify` is the ReLU of the map.
at::Tensor class_activation_map(const at::Tensor& A, const at::Tensor& g, CamKind kind, bool rectify = true);

}  // namespace pare
