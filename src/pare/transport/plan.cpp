#include "pare/transport/plan.h"

#include <ATen/ATen.h>

#include <cmath>

#include "pare/error.h"
#include "pare/transport/row_scan.h"

namespace pare {

at::Tensor uniform_marginal(int64_t count) { return at::full({count}, 1.0 / static_cast<double>(count), at::kDouble); }

at::Tensor normalized_marginal(const at::Tensor& weights, int64_t count, const std::string& where) {
  if (weights.dim() != 1 || weights.size(0) != count)
    throw Error(ErrorKind::shape, where, "expected {} marginal weights, found a tensor of {}", count,
                fmt::join(weights.sizes(), "x"));
  const at::Tensor w = weights.to(at::kDouble).contiguous();
  const double sum = w.sum().item<double>();
  if (!std::isfinite(sum) || w.min().item<double>() < 0)
    throw Error(ErrorKind::usage, where, "marginal weights must be finite and not negative");
  if (sum <= 0) throw Error(ErrorKind::usage, where, "no marginal weight is positive");
  return w / sum;
}

void check_plan(const at::Tensor& plan, const at::Tensor& a, const at::Tensor& b, double tolerance,
                const std::string& where) {
  const double sum = plan.sum().item<double>();
  const double least = plan.min().item<double>();
  if (!std::isfinite(sum) || !(least >= 0))
    throw Error(ErrorKind::failed, where, "the transport plan has entries that are negative or not finite");
  const double row = (plan.sum(1) - a).abs().max().item<double>();
  const double column = (plan.sum(0) - b).abs().max().item<double>();
  const double expected = a.sum().item<double>();
  if (std::abs(sum - expected) > tolerance || row > tolerance || column > tolerance)
    throw Error(ErrorKind::failed, where,
                "the transport plan lost mass: it sums to {:.12g} instead of {:.12g}, its marginals are off by {:.3g} "
                "and {:.3g}",
                sum, expected, row, column);
}

double mass_split(const at::Tensor& plan) {
  return std::max(0.0, 1 - plan.amax(1).sum().item<double>() / plan.sum().item<double>());
}

at::Tensor check_cost(const at::Tensor& cost, const std::string& where) {
  if (cost.dim() != 2 || cost.numel() == 0)
    throw Error(ErrorKind::shape, where, "expected a cost matrix, found a tensor of {}", fmt::join(cost.sizes(), "x"));
  return cost.to(at::kDouble).contiguous();
}

double checked_magnitude(const double* row, int64_t columns, const std::string& where) {
  const double largest = transport::magnitude(row, columns);
  if (!std::isfinite(largest)) throw Error(ErrorKind::usage, where, "the cost has an entry that is not finite");
  return largest;
}

}  // namespace pare
