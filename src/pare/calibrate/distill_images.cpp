#include "pare/calibrate/distill_images.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numbers>

#include "pare/data/in_order.h"
#include "pare/ops/traits.h"
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
    if (!is_batch_norm(node) || node.inputs.size() < 5) continue;
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
  std::function<at::Tensor(const RunResult&, int64_t first)> objective;  // of a batch that begins with image `first`
  double start = 1;                                                      // deviation of what they start from
  double rate = 0.1;                                                     // of Adam, falling to zero by a cosine
  int64_t steps = 0;
  bool with_start = false;  // what they start from is worth learning from, too
};

// Large images have many places for the statistics of their channels to be met in; steps on them are dear.
bool large(const at::Tensor& images) { return images.dim() == 4 && images.size(2) * images.size(3) > 96 * 96; }

Aim statistics_aim(const std::vector<Remembered>& remembered, bool large) {
  Aim aim{.source = "statistics of batch norms", .steps = large ? 40 : 150};
  for (const auto& norm : remembered) aim.taps.push_back(norm.value);
  aim.objective = [&remembered](const RunResult& run, int64_t) { return mismatch(remembered, run.tapped); };
  return aim;
}

// As many images of each class, or classes from one end of the list to the other where there are fewer images.
Aim classes_aim(const Graph& graph, int64_t count, bool large) {
  bool probabilities = false;
  for (const auto& node : graph.nodes)
    if (node.outputs.front() == graph.outputs.front().name) probabilities = node.op == "Softmax";
  Aim aim{.source = "classes",
          .start = large ? 1 : 0.1,
          .rate = large ? 0.08 : 0.02,
          .steps = large ? 6 : 150,
          .with_start = large};
  aim.objective = [probabilities, count](const RunResult& run, int64_t first) {
    const at::Tensor& out = run.outputs.front();
    const at::Tensor logits = probabilities ? at::log(out + 1e-12) : out;
    const at::Tensor image = at::arange(first, first + out.size(0), at::kLong);
    const int64_t classes = out.size(1);
    return at::cross_entropy_loss(
        logits, count < classes ? at::floor_divide(image * classes, count) : image.remainder(classes));
  };
  return aim;
}

// Does the network tell classes of single images apart?
bool is_classifier(const Graph& graph, const at::Tensor& images) {
  const at::NoGradGuard no_grad;
  const at::Tensor out = forward(graph, {{images.narrow(0, 0, 1)}}).outputs.front();
  return out.dim() == 2 && out.size(0) == 1 && out.size(1) > 1 && out.is_floating_point();
}

struct DistilledBatch {
  at::Tensor images;
  double before = 0, after = 0;  // the objective
};

DistilledBatch distilled(const Program& program, const RunOptions& run, const Aim& aim, const at::Tensor& start,
                         int64_t first, int64_t steps, const std::function<void()>& stepped) {
  const at::AutoGradMode with_gradients(true);
  DistilledBatch result;
  at::Tensor x = (start * aim.start).requires_grad_();
  PixelAdam adam(x);
  for (int64_t s = 0; s < steps; ++s) {
    const at::Tensor loss = aim.objective(program.run({&x, 1}, run), first);
    if (s == 0) result.before = loss.item<double>();
    loss.backward();
    const at::Tensor gradient = x.grad().clone();
    x.mutable_grad() = at::Tensor();
    const double progress = static_cast<double>(s) / static_cast<double>(steps);
    const at::NoGradGuard no_grad;
    adam.step(x, gradient, aim.rate * 0.5 * (1 + std::cos(std::numbers::pi * progress)));
    stepped();
  }
  const at::NoGradGuard no_grad;
  result.images = x.detach();
  result.after = aim.objective(program.run({&result.images, 1}, run), first).item<double>();
  return result;
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
  const bool are_large = large(result.inputs[0]);
  const Aim aim =
      remembered.empty() ? classes_aim(graph, options.count, are_large) : statistics_aim(remembered, are_large);
  const int64_t steps = options.steps > 0 ? options.steps : aim.steps;

  const Program program(graph);
  const RunOptions run{.taps = aim.taps};
  const int64_t batch = options.batch > 0 ? options.batch : are_large ? 8 : 32;
  const int64_t batches = (options.count + batch - 1) / batch;
  std::mutex mutex;
  int64_t done = 0;
  std::vector<at::Tensor> images;
  in_order<DistilledBatch>(  // one batch per core: no thread waits for another inside a layer
      static_cast<size_t>(batches),
      [&](size_t b) {
        const int64_t begin = static_cast<int64_t>(b) * batch;
        const at::Tensor x = result.inputs[0].narrow(0, begin, std::min(batch, options.count - begin));
        return distilled(program, run, aim, x, begin, steps, [&] {
          const std::lock_guard lock(mutex);
          if (options.progress) options.progress(++done, batches * steps);
        });
      },
      [&](const DistilledBatch& own) {
        images.push_back(own.images);
        result.before += own.before / static_cast<double>(batches);
        result.after += own.after / static_cast<double>(batches);
      });
  if (aim.with_start) images.push_back(result.inputs[0]);
  result.inputs[0] = at::cat(images);
  result.source = aim.source;
  return result;
}

}  // namespace pare
