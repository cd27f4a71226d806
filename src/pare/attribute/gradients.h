// Attribution by gradients of a class score z_c at the input x.
//
//   gradient            dz_c/dx                                                         Simonyan et al. 2014
//   input_x_gradient    x ∘ dz_c/dx
//   integrated          (x − x₀) ∘ ∫₀¹ dz_c/dx (x₀ + t (x − x₀)) dt, by Gauss and Legendre's rule: with n nodes exact
//                       where z_c is a polynomial of degree 2n along the way             Sundararajan et al. 2017
//   smooth              the mean gradient of noisy copies of x, all images with the same noise, so that none depends
//                       on those beside it                                               Smilkov et al. 2017
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "pare/run.h"

namespace pare {

// All take x of [N, …] and classes int64 [N], and give a tensor like x. The program's first output holds the scores.
at::Tensor input_gradient(const Program& program, const at::Tensor& x, const at::Tensor& classes);
at::Tensor input_x_gradient(const Program& program, const at::Tensor& x, const at::Tensor& classes);

struct IntegratedOptions {
  int64_t steps = 20;
  at::Tensor baseline;  // x₀, broadcasts to x; undefined: zeros
};
struct Integrated {
  at::Tensor attribution;
  at::Tensor delta;  // [N]: sum of the attribution − (z_c(x) − z_c(x₀)), which tends to 0
};
Integrated integrated_gradients(const Program& program, const at::Tensor& x, const at::Tensor& classes,
                                const IntegratedOptions& options = {});

struct SmoothOptions {
  int64_t samples = 16;
  double noise = 0.15;  // standard deviation, as a fraction of each image's range
  uint64_t seed = 0;
};
at::Tensor smooth_gradient(const Program& program, const at::Tensor& x, const at::Tensor& classes,
                           const SmoothOptions& options = {});

// Nodes and weights of Gauss and Legendre's rule on [0, 1].
struct Quadrature {
  std::vector<double> nodes, weights;
};
Quadrature gauss_legendre(int64_t count);

}  // namespace pare
