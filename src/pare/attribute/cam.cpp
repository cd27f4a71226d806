#include "pare/attribute/cam.h"

#include <ATen/ATen.h>

#include "pare/error.h"

namespace pare {

at::Tensor class_activation_map(const at::Tensor& A, const at::Tensor& g, CamKind kind, bool rectify) {
  if (A.dim() != 4 || A.size(2) * A.size(3) < 2 || A.sizes() != g.sizes())
    throw Error(ErrorKind::shape, "cam", "a layer of {} has no spatial extent", fmt::join(A.sizes(), "x"));
  at::Tensor map;
  if (kind == CamKind::hires) {
    map = (g * A).sum(1);
  } else {
    at::Tensor a = g;
    if (kind == CamKind::grad_plus_plus) {
      const at::Tensor square = g * g;
      const at::Tensor denominator = 2 * square + square * g * A.sum({2, 3}, /*keepdim=*/true);
      a = at::where(denominator.eq(0), at::zeros_like(g), square / denominator) * g.clamp_min(0);
    }
    map = at::einsum("nk,nkhw->nhw", {a.sum({2, 3}), A});
  }
  // Not clamp_min, which lets a gradient through at 0: a map that is all zero has none.
  return rectify ? at::relu(map) : map;
}

}  // namespace pare
