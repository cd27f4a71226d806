// Layer-wise relevance propagation (Bach et al. 2015; Montavon et al. 2019). The score z_c is handed back layer by
// layer; R_i is the relevance of output i of a layer, R_j that of input j, w_ij its weights, (·)+ and (·)- the positive
// and negative parts:
//   zero       R_j = sum_i x_j w_ij R_i / z_i,  z_i = sum_j x_j w_ij + b_i          (the bias keeps its share)
//   epsilon    the same with z_i + ε sign(z_i)
//   gamma      the same with w + γ w+ and b + γ b+
//   alpha-beta R_j = sum_i (α (x_j w_ij)+ / sum_j (x_j w_ij)+ − β (x_j w_ij)- / sum_j (x_j w_ij)-) R_i,  α − β = 1
//              (the bias is left out; both products of a signed x share one denominator; a unit whose terms all have
//              one sign, or that only its bias made active, gives R_i to all of them by |x_j w_ij|, or by |w_ij| where
//              every x_j is 0: a score that biases carry is not lost on the way)
//   z-plus     alpha-beta with α = 1, β = 0
//   box (z^B)  R_j = sum_i (w_ij x_j − w+_ij l_j − w-_ij h_j) R_i / sum_j (…), for inputs that lie in [l, h]
// The first layer is the one that reads the image, which the graph may normalise first: l and h are bounds of what the
// layer reads. Averages and sums of values (residual connections) follow the rule of convolutions.
#pragma once

#include <string>
#include <vector>

#include "pare/attribute/walk.h"

namespace pare {

enum class LrpRule { zero, epsilon, gamma, alpha_beta, box };

struct LrpLayer {
  LrpRule rule = LrpRule::alpha_beta;
  double epsilon = 1e-6;
  double gamma = 0.25;
  double alpha = 1;
  double beta = 0;
};

struct LrpOptions {
  LrpLayer dense, convolution;
  LrpLayer first = {.rule = LrpRule::box};  // layers that read the input
  // Bounds of what those read, a value for each channel; empty: the least and largest value of each image.
  std::vector<double> low, high;
};

// zero, epsilon, gamma, z-plus, alpha2-beta1: one rule for all layers.
// alpha1-beta0: z-plus, with box first; the attribution paper's.
// epsilon-plus: epsilon for dense layers, z-plus for convolutions. epsilon-alpha2-beta1, epsilon-gamma-box: likewise.
// Error{usage} for another name.
LrpOptions lrp_preset(const std::string& name);

LinearRule lrp_rule(const LrpOptions& options);

// R_j of the box rule; `low` and `high` broadcast to x.
at::Tensor box_shares(const LinearStep& step, const at::Tensor& relevance, const at::Tensor& low,
                      const at::Tensor& high);
// The least and largest value of each image of x, in the shape of x.
struct Bounds {
  at::Tensor low, high;
};
Bounds bounds_of_images(const at::Tensor& x);

}  // namespace pare
