#include "pare/distill/attention.h"

#include <ATen/ATen.h>

#include "pare/error.h"

namespace pare {

at::Tensor attention_map(const at::Tensor& A) {
  if (A.dim() != 4 || A.size(2) * A.size(3) < 2)
    throw Error(ErrorKind::shape, OptionName{"match"}, "a layer of {} has no spatial extent",
                fmt::join(A.sizes(), "x"));
  return A.square().mean(1);
}

at::Tensor map_distance(const at::Tensor& teacher, const at::Tensor& student) {
  if (teacher.sizes() != student.sizes())
    throw Error(ErrorKind::shape, OptionName{"match"},
                "the teacher's maps are of {}, the student's of {}; `match-layers` chooses layers of one size",
                fmt::join(teacher.sizes().slice(1), "x"), fmt::join(student.sizes().slice(1), "x"));
  const auto unit = [](const at::Tensor& map) {
    const at::Tensor v = map.flatten(1);
    return v / v.norm(2, 1, /*keepdim=*/true).clamp_min(1e-12);
  };
  return (unit(teacher.detach()) - unit(student)).square().mean();
}

at::Tensor match_attention(const Matched& matched) {
  at::Tensor sum;
  for (size_t l = 0; l < matched.student.layers.size(); ++l) {
    const at::Tensor R =
        map_distance(attention_map(matched.teacher.layers[l]), attention_map(matched.student.layers[l]));
    sum = sum.defined() ? sum + R : R;
  }
  return sum;
}

}  // namespace pare
