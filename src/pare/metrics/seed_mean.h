// A figure measured with several seeds.
#pragma once

#include <limits>
#include <vector>

namespace pare {

struct SeedMean {
  double mean = 0;
  double error = std::numeric_limits<double>::quiet_NaN();  // standard error of the mean; NaN of a single value
};
SeedMean seed_mean(const std::vector<double>& values);

}  // namespace pare
