#include "pare/metrics/seed_mean.h"

#include <cmath>

namespace pare {

SeedMean seed_mean(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  SeedMean result;
  for (const double value : values) result.mean += value / n;
  if (values.size() < 2) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.error = std::sqrt(squares / (n - 1) / n);
  return result;
}

}  // namespace pare
