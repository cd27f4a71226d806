#include "pare/attribute/gradients.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <numbers>

#include "pare/analysis/scores.h"
#include "pare/attribute/explained.h"
#include "pare/error.h"

namespace pare {

namespace {

at::Tensor scores_of(const Program& program, const at::Tensor& x) {
  return score_rows(program.run({&x, 1}).outputs.at(0));
}

at::Tensor per_image(const at::Tensor& values, const at::Tensor& x) {
  std::vector<int64_t> dims(static_cast<size_t>(x.dim()), 1);
  dims[0] = -1;
  return values.reshape(dims);
}

}  // namespace

at::Tensor input_gradient(const Program& program, const at::Tensor& x, const at::Tensor& classes) {
  const at::AutoGradMode recording(true);
  const at::Tensor leaf = x.detach().clone().requires_grad_();
  class_scores(with_gradient(scores_of(program, leaf), program.graph().inputs.at(0).name), classes).sum().backward();
  return leaf.grad().defined() ? leaf.grad() : at::zeros_like(x);
}

at::Tensor input_x_gradient(const Program& program, const at::Tensor& x, const at::Tensor& classes) {
  return x * input_gradient(program, x, classes);
}

Integrated integrated_gradients(const Program& program, const at::Tensor& x, const at::Tensor& classes,
                                const IntegratedOptions& options) {
  if (options.steps < 1) throw Error(ErrorKind::usage, "steps", "{} is not positive", options.steps);
  const at::Tensor baseline = options.baseline.defined() ? options.baseline.expand_as(x) : at::zeros_like(x);
  const at::Tensor way = x - baseline;
  at::Tensor mean = at::zeros_like(x);
  const Quadrature rule = gauss_legendre(options.steps);
  for (size_t i = 0; i < rule.nodes.size(); ++i)
    mean = mean + rule.weights[i] * input_gradient(program, baseline + rule.nodes[i] * way, classes);
  const at::NoGradGuard no_grad;
  const auto score = [&](const at::Tensor& at) { return class_scores(scores_of(program, at), classes); };
  Integrated out{.attribution = way * mean};
  out.delta = out.attribution.flatten(1).sum(1) - (score(x) - score(baseline));
  return out;
}

at::Tensor smooth_gradient(const Program& program, const at::Tensor& x, const at::Tensor& classes,
                           const SmoothOptions& options) {
  if (options.samples < 1 || !(options.noise >= 0))
    throw Error(ErrorKind::usage, "smooth gradient", "{} samples with a noise of {}", options.samples, options.noise);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(options.seed);
  const at::Tensor flat = x.flatten(1);
  const at::Tensor deviation = options.noise * per_image(flat.amax(1) - flat.amin(1), x);
  at::Tensor mean = at::zeros_like(x);
  for (int64_t i = 0; i < options.samples; ++i) {
    const at::Tensor noise = at::randn(x.sizes().slice(1), generator, x.options());
    mean = mean + input_gradient(program, x + deviation * noise, classes) / static_cast<double>(options.samples);
  }
  return mean;
}

// Newton's method on the Legendre polynomial, from the usual guess of its roots.
Quadrature gauss_legendre(int64_t count) {
  Quadrature rule;
  const auto n = static_cast<double>(count);
  for (int64_t i = count; i >= 1; --i) {
    double root = std::cos(std::numbers::pi * (static_cast<double>(i) - 0.25) / (n + 0.5));
    double slope = 1;
    for (int iteration = 0; iteration < 100; ++iteration) {
      double p = 1, before = 0;
      for (int64_t k = 1; k <= count; ++k) {
        const auto m = static_cast<double>(k);
        const double next = ((2 * m - 1) * root * p - (m - 1) * before) / m;
        before = p;
        p = next;
      }
      slope = n * (root * p - before) / (root * root - 1);
      const double change = p / slope;
      root -= change;
      if (std::abs(change) < 1e-15) break;
    }
    rule.nodes.push_back((root + 1) / 2);
    rule.weights.push_back(1 / ((1 - root * root) * slope * slope));
  }
  return rule;
}

}  // namespace pare
