#include "pare/distill/sensitivity.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "pare/attribute/cam.h"
#include "pare/attribute/explained.h"
#include "pare/distill/attention.h"
#include "pare/error.h"

namespace pare {

std::vector<at::Tensor> score_gradients(const Observation& seen, const at::Tensor& classes, bool differentiable) {
  const at::Tensor z = class_scores(with_gradient(seen.scores, OptionName{"match"}), classes).sum();
  auto gradients = torch::autograd::grad({z}, seen.layers, {}, /*retain_graph=*/true, differentiable,
                                         /*allow_unused=*/true);
  for (const auto& g : gradients)
    if (!g.defined())
      throw Error(ErrorKind::usage, OptionName{"match-layers"}, "the scores do not depend on a matched layer");
  return gradients;
}

at::Tensor without_channels(const at::Tensor& A, double rho) {
  const int64_t C = A.size(1);
  const auto dropped = static_cast<int64_t>(std::floor(rho * static_cast<double>(C)));
  if (dropped == 0) return A;
  return A.index_fill(1, at::randperm(C).narrow(0, 0, dropped), 0);
}

namespace {

at::Tensor sensitivity_distance(const Matched& matched, double rho) {
  if (matched.teacher.scores.size(1) != matched.student.scores.size(1))
    throw Error(ErrorKind::shape, OptionName{"match"}, "the teacher has {} classes, the student {}",
                matched.teacher.scores.size(1), matched.student.scores.size(1));
  const at::Tensor c = top_classes(matched.teacher.scores.detach());
  const auto g_T = score_gradients(matched.teacher, c, /*differentiable=*/false);
  const auto g_S = score_gradients(matched.student, c, /*differentiable=*/true);
  at::Tensor sum;
  for (size_t l = 0; l < g_S.size(); ++l) {
    const at::Tensor A_T = without_channels(matched.teacher.layers[l].detach(), rho);
    const at::Tensor R = map_distance(class_activation_map(A_T, g_T[l], CamKind::grad),
                                      class_activation_map(matched.student.layers[l], g_S[l], CamKind::grad));
    sum = sum.defined() ? sum + R : R;
  }
  return sum;
}

}  // namespace

at::Tensor match_sensitivity(const Matched& matched) { return sensitivity_distance(matched, 0); }

at::Tensor match_stochastic_sensitivity(const Matched& matched) { return sensitivity_distance(matched, matched.drop); }

}  // namespace pare
