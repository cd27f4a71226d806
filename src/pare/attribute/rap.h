// Relative attributing propagation (Nam et al., AAAI 2020): relevance of both signs, told apart by influence instead of
// by sign, as the attribution paper uses it. R+ and R- are the positive and negative parts of R.
//   head   C_j = x_j w_cj with its share of the bias, made unsigned and rescaled to the sum z_c. Every C_j has the same
//          share of the bias in proportion, so that R_j = sum_i |x_j w_ij| R_i / sum_j |x_j w_ij|
//   inner  Z+ and Z- are the sums of the positive and of the sizes of the negative products x_j w_ij;
//          C_j = sum_i |(x_j w_ij)+| R+_i/Z+_i + |(x_j w_ij)-| (R-_i/Z-_i + (R+_i + R-_i)/(Z+_i + Z-_i)),
//          then a uniform shift over what is not zero, so that the sum stays: R_j = C_j − (sum C − sum R)/#{C ≠ 0}
//   first  the box rule of lrp.h with each image's own bounds
//   averages and sums of values in proportion to |x|
// The walk starts from z_c at the class.
#pragma once

#include "pare/attribute/walk.h"

namespace pare {

LinearRule rap_rule();

}  // namespace pare
