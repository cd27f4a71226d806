#include "pare/compensate/most_sim.h"

#include <ATen/ATen.h>

#include <cmath>

#include "pare/prune/filters.h"

namespace pare {

namespace {

// A number that no real distance reaches: stands for a candidate that must not be taken.
constexpr double kNever = 1e30;

// scale [R, K] and distance [R, K] of every pair (removed, kept).
struct Pairs {
  at::Tensor cosine;
  at::Tensor scale;
  at::Tensor distance;
};

Pairs with_batch_norm(const Pairs& plain, const NormParameters& norm, const at::Tensor& R, const at::Tensor& K,
                      const MostSimOptions& options) {
  const auto removed = [&](const at::Tensor& x) { return x.index_select(0, R).unsqueeze(1); };
  const auto kept = [&](const at::Tensor& x) { return x.index_select(0, K).unsqueeze(0); };
  const at::Tensor g1 = removed(norm.gamma), g2 = kept(norm.gamma), b1 = removed(norm.beta), b2 = kept(norm.beta);
  const at::Tensor m1 = removed(norm.mean), m2 = kept(norm.mean);
  const at::Tensor s = plain.scale;
  Pairs pairs = plain;
  at::Tensor B;
  if (options.as_published) {
    const at::Tensor v1 = removed(norm.sigma.square()), v2 = kept(norm.sigma.square());
    pairs.scale = s * (g2 / g1) * (v1 / v2);
    B = (g2 / v2) * (s * (m1 - v1 * b1 / g1) - m2) + b2;
  } else {
    const at::Tensor s1 = removed(norm.sigma), s2 = kept(norm.sigma);
    const at::Tensor sign = at::sign(g1 * g2);
    pairs.cosine = plain.cosine * sign;
    pairs.scale = s * sign * (g1 / g2) * (s2 / s1);
    B = (g1 / s1) * (s * sign * (m2 - s2 * b2 / g2) - m1) + b1;
  }
  // γ = 0 makes a constant channel: it can neither take over nor be taken over.
  const at::Tensor usable = at::isfinite(pairs.scale).logical_and(at::isfinite(B)).logical_and(pairs.scale != 0);
  at::Tensor bias = at::where(usable, B.abs() / pairs.scale, at::full_like(B, kNever));
  const at::Tensor low = bias.amin({1}, true);
  const at::Tensor high = at::where(usable, bias, low).amax({1}, true);
  bias = (bias - low) / at::where(high > low, high - low, at::ones_like(low));
  pairs.distance = options.lambda * (1 - pairs.cosine) + (1 - options.lambda) * bias;
  pairs.distance = at::where(usable, pairs.distance, at::full_like(B, kNever));
  return pairs;
}

}  // namespace

Merge most_sim(const MergeProblem& problem, const MostSimOptions& options) {
  Merge merge{.Z = identity_merge(problem)};
  const GroupFilters filters = group_filters(problem.graph, problem.map, problem.group, at::kFloat);
  const at::Tensor R = at::tensor(problem.removed, at::kLong);
  const at::Tensor K = at::tensor(problem.kept, at::kLong);
  // In single precision, which is what weights carry.
  const at::Tensor vectors = filters.vectors().to(at::kFloat);
  const at::Tensor norms = vectors.norm(2, {1}).to(at::kDouble);
  const at::Tensor removed = norms.index_select(0, R).unsqueeze(1), kept = norms.index_select(0, K).unsqueeze(0);
  Pairs pairs;
  const at::Tensor products = at::mm(vectors.index_select(0, R), vectors.index_select(0, K).t());
  // A filter of zeros has no direction: it is at right angles to all.
  pairs.cosine = at::nan_to_num(products / (removed * kept), 0, 0, 0);
  pairs.scale = removed / kept;
  pairs.distance = 1 - pairs.cosine;
  if (filters.norm) pairs = with_batch_norm(pairs, *filters.norm, R, K, options);
  const at::Tensor nearest = std::get<1>(pairs.distance.min(1));
  const auto chosen = [&](const at::Tensor& x) { return x.gather(1, nearest.unsqueeze(1)).squeeze(1).contiguous(); };
  const at::Tensor cosine = chosen(pairs.cosine), scale = chosen(pairs.scale), distance = chosen(pairs.distance);
  auto Z = merge.Z.accessor<double, 2>();
  for (size_t r = 0; r < problem.removed.size(); ++r) {
    const double s = scale.data_ptr<double>()[r];
    // A filter of zeros, removed or kept, has no direction: nothing is merged.
    if (!(cosine.data_ptr<double>()[r] >= options.threshold) || !std::isfinite(s) || s == 0 ||
        distance.data_ptr<double>()[r] >= kNever)
      continue;
    Z[problem.removed[r]][nearest.data_ptr<int64_t>()[r]] = s;
    ++merge.merged;
  }
  if (merge.merged == 0) merge.reason = "no removed filter is similar enough to a kept one";
  return merge;
}

}  // namespace pare
