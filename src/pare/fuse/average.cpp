#include "pare/fuse/average.h"

#include <ATen/ATen.h>

#include <cmath>

#include "pare/error.h"

namespace pare {

std::vector<double> mixing_shares(const std::vector<double>& weights, size_t count) {
  if (weights.empty()) return std::vector<double>(count, 1.0 / static_cast<double>(count));
  if (weights.size() != count)
    throw Error(ErrorKind::usage, OptionName{"weights"}, "expected one for each of {} models, found {}", count,
                weights.size());
  double sum = 0;
  for (const double weight : weights) {
    if (!std::isfinite(weight) || weight < 0)
      throw Error(ErrorKind::usage, OptionName{"weights"}, "expected numbers that are not negative, found {}", weight);
    sum += weight;
  }
  if (sum <= 0) throw Error(ErrorKind::usage, OptionName{"weights"}, "at least one must be positive");
  std::vector<double> shares;
  shares.reserve(weights.size());
  for (const double weight : weights) shares.push_back(weight / sum);
  return shares;
}

Graph weighted_average(const std::vector<Graph>& networks, const std::vector<double>& weights, size_t reference) {
  const std::vector<double> shares = mixing_shares(weights, networks.size());
  Graph result = networks[reference];
  for (auto& [name, tensor] : result.tensors) {
    if (!tensor.is_floating_point()) continue;
    const at::Tensor origin = tensor.to(at::kDouble);
    at::Tensor moved = at::zeros_like(origin);
    for (size_t k = 0; k < networks.size(); ++k)
      if (k != reference && shares[k] > 0)
        moved = moved + shares[k] * (networks[k].tensor(name).to(at::kDouble) - origin);
    tensor = (origin + moved).to(tensor.scalar_type());
  }
  return result;
}

}  // namespace pare
