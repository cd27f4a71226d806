// Learning-rate schedules: pure functions of the step, so that a resumed run needs nothing but its number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pare/core/options.h"
#include "pare/train.h"  // IWYU pragma: export

namespace pare {

struct RunLength {
  int64_t steps = 0;  // of the whole run
  int64_t steps_per_epoch = 0;
};

double learning_rate(const ScheduleOptions& options, double rate, int64_t step, const RunLength& run);

}  // namespace pare
