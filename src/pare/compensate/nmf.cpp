#include "pare/compensate/nmf.h"

#include <ATen/ATen.h>

#include "pare/prune/filters.h"

namespace pare {

namespace {
constexpr double kTiny = 1e-12;
}

int64_t factorize_nonnegative(const at::Tensor& W, at::Tensor& Y, at::Tensor& Z, const NmfOptions& options) {
  constexpr int64_t kBetweenLooks = 10;
  const auto dot = [](const at::Tensor& a, const at::Tensor& b) { return (a * b).sum(at::kDouble).item<double>(); };
  const double whole = dot(W, W);
  double first = 0, last = 0;
  for (int64_t i = 0; i < options.iterations; ++i) {
    const at::Tensor YW = at::mm(Y.t(), W), YYZ = at::mm(at::mm(Y.t(), Y), Z);
    if (i % kBetweenLooks == 0) {
      const double error = whole - 2 * dot(Z, YW) + dot(Z, YYZ);  // ‖W − YZ‖²
      if (i == 0) first = error;
      if (i > 0 && last - error < options.tolerance * first) return i;
      last = error;
    }
    Z = Z * YW / (YYZ + kTiny);
    Y = Y * at::mm(W, Z.t()) / (at::mm(Y, at::mm(Z, Z.t())) + kTiny);
  }
  return options.iterations;
}

Merge nmf(const MergeProblem& problem, const NmfOptions& options) {
  Merge merge{.Z = identity_merge(problem)};
  const GroupFilters filters = group_filters(problem.graph, problem.map, problem.group, at::kFloat);
  if (!filters.single() || filters.depthwise.defined()) {
    merge.reason = "several layers make its channels: there is no one matrix to factorise";
    return merge;
  }
  const at::Tensor K = at::tensor(problem.kept, at::kLong);
  const at::Tensor W = filters.weight.clamp_min(0).t();
  at::Tensor Y = W.index_select(1, K) + kTiny;
  at::Tensor Z = at::clamp_min(at::mm(Y.t(), W), 0);
  Z = Z / (at::mm(at::mm(Y.t(), Y), at::ones_like(Z)) + kTiny) + kTiny;
  factorize_nonnegative(W, Y, Z, options);
  merge.Z = Z.t().to(at::kDouble).contiguous();
  merge.filters = Y.t().to(at::kDouble).contiguous();
  merge.merged = static_cast<int64_t>(problem.removed.size());
  return merge;
}

}  // namespace pare
