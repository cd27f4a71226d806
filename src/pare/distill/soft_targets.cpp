#include "pare/distill/soft_targets.h"

#include <ATen/ATen.h>

#include "pare/error.h"

namespace pare {

at::Tensor soft_target_loss(const at::Tensor& student, const at::Tensor& teacher, double T, bool multi_label) {
  if (student.sizes() != teacher.sizes())
    throw Error(ErrorKind::shape, "distillation", "the teacher gives scores of {}, the student of {}",
                fmt::join(teacher.sizes(), "x"), fmt::join(student.sizes(), "x"));
  const at::Tensor z = student / T, t = teacher.detach() / T;
  if (!multi_label) {
    const at::Tensor log_p = at::log_softmax(t, 1), log_q = at::log_softmax(z, 1);
    return T * T * (log_p.exp() * (log_p - log_q)).sum(1).mean();
  }
  const at::Tensor present = at::sigmoid(t) * (at::log_sigmoid(t) - at::log_sigmoid(z));
  const at::Tensor absent = at::sigmoid(-t) * (at::log_sigmoid(-t) - at::log_sigmoid(-z));
  return T * T * (present + absent).mean();
}

}  // namespace pare
