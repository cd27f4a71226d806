#include "pare/attribute/excitation.h"

#include <ATen/ATen.h>

namespace pare {

LinearRule excitation_rule(bool opposite) {
  return [opposite](const LinearStep& l, const at::Tensor& P) {
    if (l.kind == LinearKind::shift) return P.unsqueeze(0);
    const at::Tensor weight = opposite && l.head ? -l.weight : l.weight;
    // Sums and averages have no weights that see to it that something excites them.
    return share(l, {{l.x.clamp_min(0), weight.clamp_min(0)}}, P, {.everywhere = !l.layer()});
  };
}

}  // namespace pare
