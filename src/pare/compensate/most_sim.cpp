#include "pare/compensate/most_sim.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "pare/prune/filters.h"

namespace pare {

namespace {

// How removed filter 1 would be taken over by a kept filter 2.
struct Pair {
  double cosine = 0;
  double scale = 0;  // S
  double bias = 0;  // |B|/S; not finite where γ = 0 makes a constant channel, which can neither take over nor be taken
};

// Batch norms as numbers to read, a channel each.
struct Norm {
  explicit Norm(const NormParameters& norm) : gamma(norm.gamma), beta(norm.beta), mean(norm.mean), sigma(norm.sigma) {}

  // The pair after the batch norm, from the pair before it.
  Pair after(const Pair& before, int64_t n1, int64_t n2, bool as_published) const {
    const double g1 = gamma[n1], g2 = gamma[n2], b1 = beta[n1], b2 = beta[n2], m1 = mean[n1], m2 = mean[n2];
    const double s1 = sigma[n1], s2 = sigma[n2], s = before.scale;
    if (as_published) {
      const double v1 = s1 * s1, v2 = s2 * s2;
      const double S = s * (g2 / g1) * (v1 / v2);
      const double B = (g2 / v2) * (s * (m1 - v1 * b1 / g1) - m2) + b2;
      return {before.cosine, S, std::abs(B) / S};
    }
    const double sign = g1 * g2 < 0 ? -1 : 1;
    const double S = s * sign * (g1 / g2) * (s2 / s1);
    const double B = (g1 / s1) * (s * sign * (m2 - s2 * b2 / g2) - m1) + b1;
    return {before.cosine * sign, S, std::abs(B) / S};
  }

 private:
  // Keeps its tensor.
  struct Values {
    explicit Values(const at::Tensor& x) : tensor(x.to(at::kDouble).contiguous()), at(tensor.data_ptr<double>()) {}
    double operator[](int64_t i) const { return at[i]; }
    at::Tensor tensor;
    const double* at;
  };
  Values gamma, beta, mean, sigma;
};

bool usable(const Pair& pair) { return std::isfinite(pair.scale) && pair.scale != 0 && std::isfinite(pair.bias); }

// The place of the nearest kept filter by λ (1 − cos) + (1 − λ) |B|/S, the latter scaled to 0…1; −1 for none.
int64_t nearest(const std::vector<Pair>& pairs, double lambda) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const Pair& pair : pairs) {
    if (!usable(pair)) continue;
    low = std::min(low, pair.bias);
    high = std::max(high, pair.bias);
  }
  const double range = high > low ? high - low : 1;
  int64_t best = -1;
  double least = std::numeric_limits<double>::infinity();
  for (size_t k = 0; k < pairs.size(); ++k) {
    if (!usable(pairs[k])) continue;
    const double distance = lambda * (1 - pairs[k].cosine) + (1 - lambda) * (pairs[k].bias - low) / range;
    if (!(distance < least)) continue;
    least = distance;
    best = static_cast<int64_t>(k);
  }
  return best;
}

}  // namespace

Merge most_sim(const MergeProblem& problem, const MostSimOptions& options) {
  Merge merge{.Z = identity_merge(problem)};
  const GroupFilters filters = filters_of(problem, at::kFloat);
  // In single precision, which is what weights carry.
  const at::Tensor vectors = filters.vectors().to(at::kFloat);
  const at::Tensor norms = vectors.norm(2, {1}).to(at::kDouble);
  const auto rows = [&](const std::vector<int64_t>& places) {
    return vectors.index_select(0, at::tensor(places, at::kLong));
  };
  const at::Tensor products = at::mm(rows(problem.removed), rows(problem.kept).t());
  const auto product = products.accessor<float, 2>();
  const double* length = norms.data_ptr<double>();
  const std::optional<Norm> norm = filters.norm ? std::optional<Norm>(*filters.norm) : std::nullopt;
  auto Z = merge.Z.accessor<double, 2>();
  std::vector<Pair> pairs(problem.kept.size());
  for (size_t r = 0; r < problem.removed.size(); ++r) {
    const int64_t n1 = problem.removed[r];
    for (size_t k = 0; k < pairs.size(); ++k) {
      const int64_t n2 = problem.kept[k];
      const double cosine = product[static_cast<int64_t>(r)][static_cast<int64_t>(k)] / (length[n1] * length[n2]);
      // A filter of zeros has no direction: it is at right angles to all, and its scale makes it unusable.
      const Pair before{.cosine = std::isfinite(cosine) ? cosine : 0, .scale = length[n1] / length[n2]};
      pairs[k] = norm ? norm->after(before, n1, n2, options.as_published) : before;
    }
    const int64_t best = nearest(pairs, norm ? options.lambda : 1);
    if (best < 0 || !(pairs[static_cast<size_t>(best)].cosine >= options.threshold)) continue;
    Z[n1][best] = pairs[static_cast<size_t>(best)].scale;
    ++merge.merged;
  }
  if (merge.merged == 0) merge.reason = "no removed filter is similar enough to a kept one";
  return merge;
}

}  // namespace pare
