#include "pare/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "pare/error.h"

namespace pare {

void ScheduleOptions::describe(OptionVisitor& options) {
  options.essential().field("schedule", schedule, "learning rate over the run");
  options.field("warmup", warmup, "epochs of linear warm-up");
  options.field("milestones", milestones, "epochs after which the rate is multiplied by `factor`");
  options.field("factor", factor, "what the rate is multiplied by");
  options.field("peak", peak, "part of the run after which the rate is largest");
  options.only({"warmup"}, {without("schedule", {"one-cycle"})});
  options.only({"milestones", "factor"}, {with("schedule", {"step"})});
  options.only({"factor"}, {with("milestones", {"*"})});
  options.only({"peak"}, {with("schedule", {"one-cycle"})});
}

void ScheduleOptions::check() const {
  if (!(warmup >= 0))
    throw Error(ErrorKind::usage, OptionName{"warmup"}, "expected 0 or more epochs, found {}", warmup);
  if (!(factor > 0))
    throw Error(ErrorKind::usage, OptionName{"factor"}, "expected a positive number, found {}", factor);
  if (!(peak > 0 && peak < 1))
    throw Error(ErrorKind::usage, OptionName{"peak"}, "expected a part of the run, found {}", peak);
  if (!std::is_sorted(milestones.begin(), milestones.end()))
    throw Error(ErrorKind::usage, OptionName{"milestones"}, "expected increasing epochs");
}

namespace {

// From a at t = 0 to b at t = 1.
double half_cosine(double a, double b, double t) {
  return b + (a - b) / 2 * (1 + std::cos(std::numbers::pi * std::clamp(t, 0.0, 1.0)));
}

double one_cycle(double rate, double peak, double step, double steps) {
  const double first = rate / 25;
  const double top = std::max(peak * steps - 1, 1.0);
  if (step <= top) return half_cosine(first, rate, step / top);
  return half_cosine(rate, first / 1e4, (step - top) / std::max(steps - 1 - top, 1.0));
}

}  // namespace

double learning_rate(const ScheduleOptions& options, double rate, int64_t step, const RunLength& run) {
  const auto at = static_cast<double>(step);
  const auto steps = static_cast<double>(run.steps);
  const auto epoch = static_cast<double>(std::max<int64_t>(run.steps_per_epoch, 1));
  if (options.schedule == ScheduleKind::one_cycle) return one_cycle(rate, options.peak, at, steps);
  const double warmup = options.warmup * epoch;
  if (at < warmup) return rate * (at + 1) / (warmup + 1);
  if (options.schedule == ScheduleKind::cosine)
    return half_cosine(rate, 0, (at - warmup) / std::max(steps - warmup, 1.0));
  if (options.schedule == ScheduleKind::step)
    for (const double milestone : options.milestones)
      if (at >= milestone * epoch) rate *= options.factor;
  return rate;
}

}  // namespace pare
