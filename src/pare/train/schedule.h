// Learning-rate schedules: pure functions of the step, so that a resumed run needs nothing but its number.
//
//   constant    η
//   step        η·factor^m, m = how many of the milestones (epochs) have passed
//   cosine      η·(1 + cos(π t)) / 2, t = the part of the run after the warm-up that has passed
//   one-cycle   Smith & Topin 2019, as PyTorch's OneCycleLR: from η/25 up to η over the first `peak` of the run, then
//               down to η/250,000; both along half a cosine
//
// `warmup` epochs of a linear rise come before the first three.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pare/core/options.h"

namespace pare {

struct ScheduleOptions {
  std::string schedule = "one-cycle";
  double warmup = 0;
  std::vector<double> milestones;
  double factor = 0.1;
  double peak = 0.3;

  void describe(OptionVisitor& options);
  void check() const;  // Error{usage}
};

struct RunLength {
  int64_t steps = 0;  // of the whole run
  int64_t steps_per_epoch = 0;
};

double learning_rate(const ScheduleOptions& options, double rate, int64_t step, const RunLength& run);

}  // namespace pare
