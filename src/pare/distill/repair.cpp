#include "pare/distill/repair.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "pare/analysis/parameters.h"
#include "pare/analysis/scores.h"
#include "pare/analysis/shapes.h"
#include "pare/data/in_order.h"
#include "pare/distill/averaged_adam.h"
#include "pare/distill/repair_blocks.h"
#include "pare/error.h"
#include "pare/layerwise/pieces.h"
#include "pare/layerwise/sensitivity.h"
#include "pare/ops/traits.h"
#include "pare/run.h"
#include "pare/samples/samples.h"

namespace pare {

namespace {

using Clock = std::chrono::steady_clock;
double minutes_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count() / 60;
}

// Where branches meet, in both networks by the same name and with the same shape.
std::vector<std::string> meeting_points(const Graph& original, const Graph& cut) {
  const Shapes before = analysis_shapes(original), after = analysis_shapes(cut);
  std::vector<std::string> values;
  for (const Node& node : cut.nodes) {
    const auto is_constant = [&](const std::string& input) { return cut.is_constant(input); };
    if (kind_of(node) != OpKind::sum && kind_of(node) != OpKind::join) continue;
    if (std::any_of(node.inputs.begin(), node.inputs.end(), is_constant)) continue;  // no branches: a bias, a scale
    const std::string& value = node.outputs.front();
    const TensorType* a = before.find(value);
    const TensorType* b = after.find(value);
    if (a != nullptr && b != nullptr && a->dims == b->dims && a->dims.size() > 2) values.push_back(value);
  }
  return values;
}

bool class_scores(const at::Tensor& z) { return z.dim() >= 2 && z.size(1) > 1 && z.numel() == z.size(0) * z.size(1); }

at::Tensor relative_distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).square().sum() / a.square().sum().clamp_min(1e-12);
}

class Repair {
 public:
  Repair(const Graph& original, const Graph& cut, const Samples& learned, const Samples& held_out,
         const RepairOptions& options, Observer& observer)
      : options_(options),
        observer_(observer),
        learned_(learned),
        held_out_(held_out),
        teacher_(scores_only(original)),
        student_(scores_only(cut)),
        points_(meeting_points(original, cut)),
        learner_(cut, trained_tensors(cut)),
        random_(options.seed) {
    result_.graph = cut;
    taps_.taps = points_;
    vary_held_out();
  }

  // On the held-out samples, of the network as it was given.
  double divergence_before() const { return held_out(learner_.raw()); }

  Repaired run() {
    const auto start = Clock::now();
    result_.before = result_.after = divergence_before();
    // Early on the rate is high, and few held-out samples would mistake noise for progress.
    double next_check = 0.5;
    double done = 0;  // of the time, or of the steps: others may work on the machine, and steps take long then
    for (int64_t step = 1; done < 1; ++step) {
      make_step(cosine_rate(options_.rate, done), step);
      result_.steps = step;
      done = options_.minutes > 0 ? minutes_since(start) / options_.minutes
                                  : static_cast<double>(step) / static_cast<double>(options_.steps);
      observer_.step("repairing", step, std::max<int64_t>(step, std::llround(static_cast<double>(step) / done)));
      if (done < std::min(next_check, 1.0)) continue;
      keep_if_better(step);
      next_check = done + 1 / static_cast<double>(options_.checks);
    }
    return std::move(result_);
  }

 private:
  void make_step(double rate, int64_t step) {
    const auto inputs = batch();
    RunResult target;
    {
      const at::NoGradGuard no_grad;
      target = teacher_.run(inputs, taps_);
    }
    const at::AutoGradMode recording(true);
    RunOptions run = taps_;
    run.parameters = &learner_.raw();
    const RunResult own = student_.run(inputs, run);
    const at::Tensor loss = loss_of(target, own);
    if (!std::isfinite(loss.item<double>())) {
      if (step == 1) throw Error(ErrorKind::failed, "repair", "the loss is not finite");
      return;  // a step that is left out; the best so far is kept
    }
    learner_.step(loss, rate);
  }

  at::Tensor loss_of(const RunResult& target, const RunResult& own) const {
    const at::Tensor &z = target.outputs.at(0), &other = own.outputs.at(0);
    at::Tensor loss;
    if (class_scores(z)) {
      const double T = options_.temperature;
      const at::Tensor p = at::log_softmax(z.flatten(1) / T, 1), q = at::log_softmax(other.flatten(1) / T, 1);
      loss = T * T * (p.exp() * (p - q)).sum(1).mean();
    } else {
      loss = relative_distance(z, other);
    }
    for (const auto& point : points_)
      loss = loss + options_.features / static_cast<double>(points_.size()) *
                        relative_distance(target.tapped.at(point), own.tapped.at(point));
    return loss;
  }

  // Samples drawn at random; images are moved and mirrored.
  std::vector<at::Tensor> batch() {
    const int64_t count = std::min(options_.batch, learned_.size);
    auto inputs = gathered(count, [&](int64_t) {
      const auto which = static_cast<int64_t>(random_() % static_cast<uint64_t>(learned_.size));
      return varied(learned_.inputs(which, which + 1));
    });
    if (inputs.size() == 1 && inputs[0].dim() == 4 && inputs[0].is_floating_point()) mix(inputs[0]);
    return inputs;
  }

  // Some images get a rectangle of the one before.
  void mix(at::Tensor& images) {
    const at::Tensor others = images.roll({1}, {0}).clone();
    for (int64_t i = 0; i < images.size(0); ++i) {
      if (uniform() >= options_.mixtures) continue;
      const double side = std::sqrt(0.1 + 0.4 * uniform());  // a tenth to a half of the image
      at::Tensor to = images[i], from = others[i];
      for (const int64_t axis : {1, 2}) {
        const int64_t extent = to.size(axis);
        const auto length = std::max<int64_t>(1, std::llround(side * static_cast<double>(extent)));
        const auto begin = static_cast<int64_t>(uniform() * static_cast<double>(extent - length + 1));
        to = to.narrow(axis, begin, length);
        from = from.narrow(axis, begin, length);
      }
      to.copy_(from);
    }
  }

  // A few samples say little: pictures are looked at as they are, and moved and mirrored.
  void vary_held_out() {
    constexpr int64_t kEnough = 256, kMost = 6;
    const Samples given = held_out_;
    const int64_t copies = std::min(kMost, kEnough / std::max<int64_t>(given.size, 1));
    if (copies < 2 || given.inputs(0, 1).at(0).dim() != 4) return;
    held_out_ = samples_of(gathered(given.size * copies, [&](int64_t i) {
      auto sample = given.inputs(i / copies, i / copies + 1);
      return i % copies == 0 ? sample : varied(std::move(sample));
    }));
  }

  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  std::vector<at::Tensor> varied(std::vector<at::Tensor> sample) {
    for (auto& input : sample) input = varied(input);
    return sample;
  }

  at::Tensor varied(const at::Tensor& input) {
    if (input.dim() != 4 || !input.is_floating_point()) return input;
    at::Tensor image = options_.mirror && random_() % 2 == 0 ? input.flip({3}) : input;
    for (const int64_t axis : {2, 3}) {
      const int64_t extent = image.size(axis);
      const auto most = static_cast<int64_t>(options_.shift * static_cast<double>(extent));
      const auto by = static_cast<int64_t>(random_() % static_cast<uint64_t>(2 * most + 1)) - most;
      // What comes in at the edge is the edge.
      const at::Tensor places = (at::arange(extent) + by).clamp(0, extent - 1);
      image = image.index_select(axis, places);
    }
    return image;
  }

  double held_out(const TensorMap& parameters) const {
    const at::NoGradGuard no_grad;
    RunOptions own;
    own.parameters = &parameters;
    const Pieces pieces = pieces_of(student_.graph(), held_out_, 8);
    double sum = 0;
    in_order<double>(
        pieces.count(),
        [&](size_t p) {
          const at::NoGradGuard also_here;
          const auto inputs = pieces.inputs(p);
          return divergence(teacher_.run(inputs, {}).outputs.at(0).slice(0, 0, pieces.real_in(p)),
                            student_.run(inputs, own).outputs.at(0).slice(0, 0, pieces.real_in(p)),
                            options_.temperature);
        },
        [&](double part) { sum += part; });
    return sum / static_cast<double>(std::max<int64_t>(held_out_.size, 1));
  }

  void keep_if_better(int64_t step) {
    const double now = held_out(learner_.averaged());
    if (!(now < result_.after)) return;
    result_.after = now;
    result_.best_step = step;
    for (const auto& [name, tensor] : learner_.averaged()) result_.graph.tensors[name] = tensor.clone();
  }

  const RepairOptions options_;
  Observer& observer_;
  const Samples& learned_;
  Samples held_out_;  // with moved and mirrored copies
  Program teacher_, student_;
  std::vector<std::string> points_;
  RunOptions taps_;
  AveragedAdam learner_;
  std::mt19937_64 random_;
  Repaired result_;
};

}  // namespace

std::string repair_note(const Repaired& repaired, int64_t held_out) {
  if (repaired.best_step == 0 && repaired.blocks == 0)
    return fmt::format("{} steps of distillation found nothing better on {} held-out samples: left as it was solved",
                       repaired.steps, held_out);
  const std::string blocks = repaired.blocks > 0 ? fmt::format("in {} blocks, then ", repaired.blocks) : "";
  return fmt::format(
      "repaired {}by {} of {} steps of distillation: divergence {:.4f} from {:.4f} on {} held-out samples", blocks,
      repaired.best_step, repaired.steps, repaired.after, repaired.before, held_out);
}

Repaired repair(const Graph& original, const Graph& cut, const Samples& learned, const Samples& held_out,
                const RepairOptions& options, Observer& observer) {
  if (learned.size < 1 || held_out.size < 1)
    throw Error(ErrorKind::usage, "samples", "repair needs some to learn from and some to judge by");
  const auto start = Clock::now();
  const Samples given = options.mirror ? mirrored_colour(cut, learned) : learned;
  const RepairedBlocks blocks = repair_blocks(
      original, cut, given,
      {.minutes = options.minutes * options.in_blocks, .steps = options.steps, .seed = options.seed}, observer);
  RepairOptions rest = options;
  if (options.minutes > 0) rest.minutes = std::max(options.minutes - minutes_since(start), 1e-6);
  Repair as_cut(original, cut, learned, held_out, rest, observer);
  Repair after_blocks(original, blocks.graph, learned, held_out, rest, observer);
  const double before = as_cut.divergence_before();
  const bool better = after_blocks.divergence_before() < before;
  Repaired result = (better ? after_blocks : as_cut).run();
  result.before = before;
  result.blocks = better ? std::ranges::count_if(blocks.blocks, &RepairedBlock::better) : 0;
  return result;
}

}  // namespace pare
