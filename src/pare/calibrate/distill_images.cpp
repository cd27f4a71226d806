#include "pare/calibrate/distill_images.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <numbers>

#include "pare/run.h"

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

at::Tensor mismatch(const std::vector<Remembered>& remembered, const TensorMap& tapped) {
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

// What the pixels are moved by.
struct Aim {
  std::string source;
  std::vector<std::string> taps;
  std::function<at::Tensor(const RunResult&)> objective;
  double start = 1;   // deviation of the noise
  double rate = 0.1;  // of Adam, falling to zero by a cosine
};

Aim statistics_aim(const std::vector<Remembered>& remembered) {
  Aim aim{.source = "statistics of batch norms"};
  for (const auto& norm : remembered) aim.taps.push_back(norm.value);
  aim.objective = [&remembered](const RunResult& run) { return mismatch(remembered, run.tapped); };
  return aim;
}

Aim classes_aim(const Graph& graph) {
  bool probabilities = false;
  for (const auto& node : graph.nodes)
    if (node.outputs.front() == graph.outputs.front().name) probabilities = node.op == "Softmax";
  Aim aim{.source = "classes", .start = 0.1, .rate = 0.02};
  aim.objective = [probabilities](const RunResult& run) {
    const at::Tensor& out = run.outputs.front();
    const at::Tensor logits = probabilities ? at::log(out + 1e-12) : out;
    return at::cross_entropy_loss(logits, at::arange(out.size(0), at::kLong).remainder(out.size(1)));
  };
  return aim;
}

// Does the network tell classes of single images apart?
bool is_classifier(const Graph& graph, const at::Tensor& images) {
  const at::NoGradGuard no_grad;
  const at::Tensor out = forward(graph, {{images.narrow(0, 0, 1)}}).outputs.front();
  return out.dim() == 2 && out.size(0) == 1 && out.size(1) > 1 && out.is_floating_point();
}

}  // namespace

DistilledImages distill_images(const Graph& graph, const ImageDistillOptions& options) {
  DistilledImages result;
  NoiseOptions start = options.start;
  start.count = options.count;
  start.seed = options.seed;
  result.inputs = noise_inputs(graph, start);
  if (result.inputs.size() != 1 || !result.inputs[0].is_floating_point()) return result;
  const auto remembered = remembered_statistics(graph);
  if (remembered.empty() && !is_classifier(graph, result.inputs[0])) return result;
  const Aim aim = remembered.empty() ? classes_aim(graph) : statistics_aim(remembered);

  const at::AutoGradMode with_gradients(true);
  const Program program(graph);
  const RunOptions run{.taps = aim.taps};
  const int64_t batches = (options.count + options.batch - 1) / options.batch;
  std::vector<at::Tensor> made;
  for (int64_t b = 0; b < batches; ++b) {
    const int64_t begin = b * options.batch;
    at::Tensor x = result.inputs[0].narrow(0, begin, std::min(options.batch, options.count - begin)) * aim.start;
    x.requires_grad_();
    PixelAdam adam(x);
    for (int64_t s = 0; s < options.steps; ++s) {
      const at::Tensor loss = aim.objective(program.run({&x, 1}, run));
      if (s == 0) result.before += loss.item<double>() / static_cast<double>(batches);
      loss.backward();
      const at::Tensor gradient = x.grad().clone();
      x.mutable_grad() = at::Tensor();
      const double progress = static_cast<double>(s) / static_cast<double>(options.steps);
      const at::NoGradGuard no_grad;
      adam.step(x, gradient, aim.rate * 0.5 * (1 + std::cos(std::numbers::pi * progress)));
      if (options.progress) options.progress(b * options.steps + s + 1, batches * options.steps);
    }
    const at::NoGradGuard no_grad;
    x = x.detach();
    result.after += aim.objective(program.run({&x, 1}, run)).item<double>() / static_cast<double>(batches);
    made.push_back(x);
  }
  result.inputs[0] = at::cat(made);
  result.source = aim.source;
  return result;
}

}  // namespace pare
