#include "pare/distill/gradient_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "pare/attribute/explained.h"
#include "pare/error.h"
#include "pare/train/method.h"

namespace pare {

at::Tensor loss_gradient(const Observation& seen, const at::Tensor& labels, bool differentiable) {
  const at::Tensor L =
      classification_loss(with_gradient(seen.scores, OptionName{"match"}), labels) * seen.scores.size(0);
  return torch::autograd::grad({L}, {seen.input}, {}, /*retain_graph=*/true, differentiable)[0];
}

at::Tensor match_loss_gradients(const Matched& matched) {
  const at::Tensor J_T = loss_gradient(matched.teacher, matched.labels, /*differentiable=*/false);
  const at::Tensor J_S = loss_gradient(matched.student, matched.labels, /*differentiable=*/true);
  if (J_T.numel() != J_S.numel())
    throw Error(ErrorKind::shape, OptionName{"match"}, "teacher and student take images of {} and {}",
                fmt::join(J_T.sizes(), "x"), fmt::join(J_S.sizes(), "x"));
  return 0.5 * (J_S.flatten(1) - J_T.flatten(1)).norm(2, 1).mean();
}

}  // namespace pare
