#include "pare/attribute/excitation.h"

#include <ATen/ATen.h>

namespace pare {

LinearRule excitation_rule(bool opposite) {
  return [opposite](const LinearStep& l, const at::Tensor& P) {
    if (l.kind == LinearKind::shift) return P.unsqueeze(0);
    const at::Tensor weight = opposite && l.head ? -l.weight : l.weight;
    return share_everywhere(l, P, /*both_signs=*/false, [&](const LinearStep& step, const at::Tensor& probability) {
      return share(step, {{step.x.clamp_min(0), weight.clamp_min(0)}}, probability);
    });
  };
}

}  // namespace pare
