#include "pare/calibrate/distill_images.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <numbers>

#include "pare/exec/program.h"

namespace pare {

namespace {

// A batch norm and what it remembers.
struct Remembered {
  std::string value;  // its input
  at::Tensor mean;
  at::Tensor deviation;
};

std::vector<Remembered> remembered_statistics(const Graph& graph) {
  std::vector<Remembered> list;
  for (const auto& node : graph.nodes) {
    if (node.op != "BatchNormalization" || !node.domain.empty() || node.inputs.size() < 5) continue;
    if (!graph.is_constant(node.inputs[3]) || !graph.is_constant(node.inputs[4])) continue;
    if (graph.is_constant(node.inputs[0])) continue;
    const at::Tensor variance = graph.tensor(node.inputs[4]) + node.real("epsilon", 1e-5);
    list.push_back({node.inputs[0], graph.tensor(node.inputs[3]), at::sqrt(variance)});
  }
  return list;
}

// Adam (Kingma & Ba 2015) on one tensor.
class PixelAdam {
 public:
  explicit PixelAdam(const at::Tensor& x) : m_(at::zeros_like(x)), v_(at::zeros_like(x)) {}

  void step(at::Tensor& x, const at::Tensor& gradient, double rate) {
    ++t_;
    m_ = m_ * kBeta1 + gradient * (1 - kBeta1);
    v_ = v_ * kBeta2 + gradient.square() * (1 - kBeta2);
    const at::Tensor m = m_ / (1 - std::pow(kBeta1, t_));
    const at::Tensor v = v_ / (1 - std::pow(kBeta2, t_));
    x.sub_(m / (v.sqrt() + 1e-8), rate);
  }

 private:
  static constexpr double kBeta1 = 0.9;
  static constexpr double kBeta2 = 0.99;
  at::Tensor m_, v_;
  int t_ = 0;
};

at::Tensor objective(const std::vector<Remembered>& remembered, const TensorMap& tapped) {
  at::Tensor sum;
  for (const auto& norm : remembered) {
    const at::Tensor& x = tapped.at(norm.value);
    std::vector<int64_t> places;
    for (int64_t axis = 0; axis < x.dim(); ++axis)
      if (axis != 1) places.push_back(axis);
    const at::Tensor mean = x.mean(places);
    const at::Tensor deviation = at::sqrt(x.var(places, false) + 1e-10);
    const at::Tensor term =
        (((mean - norm.mean) / norm.deviation).square() + (deviation / norm.deviation - 1).square()).mean();
    sum = sum.defined() ? sum + term : term;
  }
  return sum / static_cast<double>(remembered.size());
}

}  // namespace

size_t batch_norms_of(const Graph& graph) { return remembered_statistics(graph).size(); }

DistilledImages distill_images(const Graph& graph, const DistillOptions& options) {
  DistilledImages result;
  const auto remembered = remembered_statistics(graph);
  NoiseOptions start = options.start;
  start.count = options.count;
  start.seed = options.seed;
  result.inputs = noise_inputs(graph, start);
  const bool image = result.inputs.size() == 1 && result.inputs[0].is_floating_point();
  if (remembered.empty() || !image) return result;

  const at::AutoGradMode with_gradients(true);
  const Program program(graph);
  RunOptions run;
  for (const auto& norm : remembered) run.taps.push_back(norm.value);
  const int64_t batches = (options.count + options.batch - 1) / options.batch;
  std::vector<at::Tensor> made;
  for (int64_t b = 0; b < batches; ++b) {
    const int64_t begin = b * options.batch;
    at::Tensor x = result.inputs[0].narrow(0, begin, std::min(options.batch, options.count - begin)).clone();
    x.requires_grad_();
    PixelAdam adam(x);
    for (int64_t s = 0; s < options.steps; ++s) {
      const at::Tensor loss = objective(remembered, program.run({&x, 1}, run).tapped);
      if (s == 0) result.before += loss.item<double>() / static_cast<double>(batches);
      loss.backward();
      const at::Tensor gradient = x.grad().clone();
      x.mutable_grad() = at::Tensor();
      const double progress = static_cast<double>(s) / static_cast<double>(options.steps);
      const at::NoGradGuard no_grad;
      adam.step(x, gradient, options.rate * 0.5 * (1 + std::cos(std::numbers::pi * progress)));
      if (options.progress) options.progress(b * options.steps + s + 1, batches * options.steps);
    }
    const at::NoGradGuard no_grad;
    x = x.detach();
    result.after +=
        objective(remembered, program.run({&x, 1}, run).tapped).item<double>() / static_cast<double>(batches);
    made.push_back(x);
  }
  result.inputs[0] = at::cat(made);
  result.distilled = true;
  return result;
}

}  // namespace pare
