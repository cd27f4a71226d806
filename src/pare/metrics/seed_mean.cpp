#include "pare/metrics/seed_mean.h"

#include <fmt/format.h>

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
  result.deviation = std::sqrt(squares / (n - 1));
  return result;
}

std::vector<SeedMean> seed_means(const std::vector<std::vector<double>>& seeds) {
  std::vector<SeedMean> means;
  for (size_t i = 0; i < seeds.at(0).size(); ++i) {
    std::vector<double> values;
    for (const auto& figures : seeds) values.push_back(figures.at(i));
    means.push_back(seed_mean(values));
  }
  return means;
}

std::string text_of(const SeedMean& figure) {
  const std::string mean = fmt::format("{:.4f}", figure.mean);
  return std::isnan(figure.error) ? mean : fmt::format("{} ± {:.4f}", mean, figure.error);
}

}  // namespace pare
