// Excitation backprop (Zhang et al., ECCV 2016): a winner-take-all probability walks from a class to the neurons that
// excite it,
//   P_j = x_j sum_i w+_ij P_i / sum_j x_j w+_ij,   x ≥ 0,
// with 0/0 = 0; biases are left out, and a negative activation excites nothing. Contrastive: minus the same walk from
// the opposite of the class, whose weights in the layer nearest to the scores are negated.
#pragma once

#include "pare/attribute/walk.h"

namespace pare {

LinearRule excitation_rule(bool opposite = false);

}  // namespace pare
