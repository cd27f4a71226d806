// A figure measured with several seeds.
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace pare {

struct SeedMean {
  double mean = 0;
  double error = std::numeric_limits<double>::quiet_NaN();      // standard error of the mean; NaN of a single value
  double deviation = std::numeric_limits<double>::quiet_NaN();  // standard deviation over the seeds
  std::string note;                                             // what must be said beside it
};
SeedMean seed_mean(const std::vector<double>& values);
// Of each figure, where every seed has as many.
std::vector<SeedMean> seed_means(const std::vector<std::vector<double>>& seeds);
std::string text_of(const SeedMean& figure);  // 0.8664 ± 0.0089, or 0.8664 of a single value

}  // namespace pare
