#include "pare/compensate/nmf.h"

#include <ATen/ATen.h>

#include "pare/prune/filters.h"

namespace pare {

namespace {
constexpr double kTiny = 1e-12;
}

void factorize_nonnegative(const at::Tensor& W, at::Tensor& Y, at::Tensor& Z, int64_t iterations) {
  for (int64_t i = 0; i < iterations; ++i) {
    Z = Z * at::mm(Y.t(), W) / (at::mm(at::mm(Y.t(), Y), Z) + kTiny);
    Y = Y * at::mm(W, Z.t()) / (at::mm(Y, at::mm(Z, Z.t())) + kTiny);
  }
}

Merge nmf(const MergeProblem& problem, const NmfOptions& options) {
  Merge merge{.Z = identity_merge(problem)};
  const GroupFilters filters = group_filters(problem.graph, problem.map, problem.group);
  if (!filters.single() || filters.depthwise.defined()) {
    merge.reason = "several layers make its channels: there is no one matrix to factorise";
    return merge;
  }
  const at::Tensor K = at::tensor(problem.kept, at::kLong);
  const at::Tensor W = filters.weight.clamp_min(0).t();
  at::Tensor Y = W.index_select(1, K) + kTiny;
  at::Tensor Z = at::clamp_min(at::mm(Y.t(), W), 0);
  Z = Z / (at::mm(at::mm(Y.t(), Y), at::ones_like(Z)) + kTiny) + kTiny;
  factorize_nonnegative(W, Y, Z, options.iterations);
  merge.Z = Z.t().contiguous();
  merge.filters = Y.t().contiguous();
  merge.merged = static_cast<int64_t>(problem.removed.size());
  return merge;
}

}  // namespace pare
