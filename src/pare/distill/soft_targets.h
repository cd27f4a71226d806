// Knowledge distillation (Hinton et al. 2015): the student learns the teacher's predictions, softened by a temperature
// T. With logits t of the teacher and z of the student,
//
//   one label     T² 1/N Σ_n KL(softmax(t/T) ‖ softmax(z/T))
//   multi-label   T² 1/(N K) Σ_{n,c} KL(Bern(σ(t/T)) ‖ Bern(σ(z/T))), class by class        (Park et al. 2020)
//
// T² keeps the gradient's size: of the second it is T (σ(z/T) − σ(t/T)) / (N K).
#pragma once

#include <ATen/core/Tensor.h>

namespace pare {

// Of logits [N, K]; nothing flows back into the teacher's. Error{shape} when they differ in size.
at::Tensor soft_target_loss(const at::Tensor& student, const at::Tensor& teacher, double temperature, bool multi_label);

}  // namespace pare
