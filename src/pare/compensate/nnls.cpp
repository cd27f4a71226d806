#include "pare/compensate/nnls.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "pare/calibrate/ridge.h"
#include "pare/prune/filters.h"

namespace pare {

namespace {

// Least squares on a support, from the normal equations.
std::vector<double> on_support(const at::Tensor& gram, const at::Tensor& h, const std::vector<int64_t>& support) {
  const at::Tensor index = at::tensor(support, at::kLong);
  const at::Tensor G = gram.index_select(0, index).index_select(1, index);
  const at::Tensor z = ridge_solve(G, h.index_select(0, index).unsqueeze(1), 1e-10).contiguous();
  return {z.data_ptr<double>(), z.data_ptr<double>() + z.numel()};
}

}  // namespace

std::vector<double> matching_pursuit(const at::Tensor& gram, const at::Tensor& h, int64_t terms) {
  const auto k = gram.size(0);
  std::vector<double> z(static_cast<size_t>(k), 0);
  std::vector<int64_t> support;
  const at::Tensor norms = at::sqrt(gram.diagonal());
  at::Tensor residual = h;  // Aᵀ(y − A z)
  for (int64_t step = 0; step < std::min(terms, k); ++step) {
    // The column that is most parallel to what is left, in the positive direction.
    at::Tensor gain = at::where(norms > 0, residual / norms, at::zeros_like(residual));
    for (const int64_t s : support) gain[s] = 0;
    const auto best = gain.argmax().item<int64_t>();
    if (!(gain[best].item<double>() > 1e-12)) break;
    support.push_back(best);
    std::vector<double> values = on_support(gram, h, support);
    while (!values.empty() && *std::min_element(values.begin(), values.end()) < 0) {  // drop what would be negative
      const auto worst = std::min_element(values.begin(), values.end()) - values.begin();
      support.erase(support.begin() + worst);
      values = support.empty() ? std::vector<double>{} : on_support(gram, h, support);
    }
    std::fill(z.begin(), z.end(), 0);
    for (size_t i = 0; i < support.size(); ++i) z[static_cast<size_t>(support[i])] = values[i];
    residual = h - at::mv(gram.index_select(0, at::tensor(support, at::kLong)).t(), at::tensor(values, at::kDouble));
  }
  return z;
}

Merge nnls(const MergeProblem& problem, const NnlsOptions& options) {
  Merge merge{.Z = identity_merge(problem)};
  const at::Tensor filters = filters_of(problem).folded().to(at::kDouble);
  const at::Tensor kept = filters.index_select(0, at::tensor(problem.kept, at::kLong));
  const at::Tensor gram = at::mm(kept, kept.t());
  const at::Tensor removed = filters.index_select(0, at::tensor(problem.removed, at::kLong));
  const at::Tensor products = at::mm(removed, kept.t());
  for (size_t i = 0; i < problem.removed.size(); ++i) {
    const at::Tensor h = products[static_cast<int64_t>(i)];
    const at::Tensor row = at::tensor(matching_pursuit(gram, h, options.terms), at::kDouble);
    merge.Z[problem.removed[i]].copy_(row);
    merge.merged += row.any().item<bool>() ? 1 : 0;
  }
  if (merge.merged == 0) merge.reason = "no kept filter points the way of a removed one";
  return merge;
}

}  // namespace pare
