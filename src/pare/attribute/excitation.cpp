#include "pare/attribute/excitation.h"

#include <ATen/ATen.h>

namespace pare {

LinearRule excitation_rule(bool opposite) {
  return [opposite](const LinearStep& l, const at::Tensor& P) {
    if (l.kind == LinearKind::shift) return P.unsqueeze(0);
    const at::Tensor weight = opposite && l.head ? -l.weight : l.weight;
    return share(l, {{l.x.clamp_min(0), weight.clamp_min(0)}}, P);
  };
}

}  // namespace pare
