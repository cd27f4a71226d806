#include "pare/sparsify/gradual.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "pare/error.h"

namespace pare {

namespace {

struct Window {
  int64_t first = 0;  // t0
  int64_t every = 1;  // dt; the window's length where that is shorter
  int64_t count = 1;  // n
};

Window window_of(const GradualOptions& options, int64_t steps) {
  const auto first = static_cast<int64_t>(options.begin * static_cast<double>(steps));
  const auto last = static_cast<int64_t>(options.end * static_cast<double>(steps));
  const int64_t every = std::clamp<int64_t>(last - first, 1, options.every);
  return {first, every, std::max<int64_t>((last - first) / every, 1)};
}

}  // namespace

double gradual_sparsity(const GradualOptions& options, int64_t step, int64_t steps) {
  const Window window = window_of(options, steps);
  if (step < window.first) return 0;
  const int64_t passed = (step - window.first) / window.every;
  const double rest = std::max(1 - static_cast<double>(passed) / static_cast<double>(window.count), 0.0);
  return options.sparsity * (1 - rest * rest * rest);
}

GradualPruning::GradualPruning(const GradualOptions& options, const MaskOptions& mask_options,
                               std::vector<std::string> tensors)
    : options_(options), mask_options_(mask_options), tensors_(std::move(tensors)) {
  if (!(options.sparsity >= 0 && options.sparsity < 1))
    throw Error(ErrorKind::usage, OptionName{"sparsity"}, "expected a part in [0, 1), found {}", options.sparsity);
  if (!(options.begin >= 0 && options.begin < options.end && options.end <= 1))
    throw Error(ErrorKind::usage, "`gmp-begin`, `gmp-end`", "expected 0 <= begin < end <= 1, found {} and {}",
                options.begin, options.end);
  if (options.every < 1)
    throw Error(ErrorKind::usage, OptionName{"gmp-every"}, "expected at least 1, found {}", options.every);
}

void GradualPruning::set_masks(const TensorMap& masks) {
  masks_ = masks;
  fixed_ = FixedMask(masks);
}

void GradualPruning::after_step(TensorMap& raw, Optimizer& optimizer, const TrainPosition& at) {
  const Window window = window_of(options_, at.steps);
  const int64_t since = at.step - window.first;
  if (since < 0 || since % window.every != 0 || since / window.every > window.count) return;
  const at::NoGradGuard no_grad;
  set_masks(
      masks_by_score(magnitudes(raw, tensors_), {}, gradual_sparsity(options_, at.step, at.steps), mask_options_));
  for (const auto& [name, mask] : masks_) {
    raw.at(name).mul_(mask.to(raw.at(name).scalar_type()));
    optimizer.forget(name, mask);
  }
}

}  // namespace pare
