#include "pare/transport/barycentre.h"

#include <ATen/ATen.h>

#include "pare/error.h"
#include "pare/transport/exact.h"
#include "pare/transport/ground_cost.h"

namespace pare {

EntropicBarycentre entropic_barycentre(const at::Tensor& histograms, const at::Tensor& cost, const at::Tensor& weights,
                                       const BarycentreOptions& options) {
  const std::string where = "entropic_barycentre";
  const at::Tensor C = check_cost(cost, where);
  if (histograms.dim() != 2 || C.size(0) != C.size(1) || histograms.size(1) != C.size(0))
    throw Error(ErrorKind::shape, where, "histograms of {} on a support with a cost of {}",
                fmt::join(histograms.sizes(), "x"), fmt::join(C.sizes(), "x"));
  const int64_t K = histograms.size(0);
  const at::Tensor w = normalized_marginal(weights, K, where).unsqueeze(1);
  std::vector<at::Tensor> rows;
  for (int64_t k = 0; k < K; ++k) rows.push_back(normalized_marginal(histograms[k], C.size(0), where));
  const at::Tensor log_p = at::stack(rows).log();
  const double magnitude = checked_magnitude(C.data_ptr<double>(), C.numel(), where);
  const at::Tensor kernel = -C / (options.regularization * (magnitude > 0 ? magnitude : 1));
  // log of Kᵀu for all k at once: [K, n]
  const auto through = [&](const at::Tensor& log_scaling, const at::Tensor& log_kernel) {
    std::vector<at::Tensor> sums;
    for (int64_t k = 0; k < K; ++k) sums.push_back(at::logsumexp(log_kernel + log_scaling[k].unsqueeze(1), 0));
    return at::stack(sums);
  };
  const at::Tensor back = kernel.t().contiguous();

  EntropicBarycentre result;
  at::Tensor log_v = at::zeros_like(log_p);
  at::Tensor log_b;
  for (result.iterations = 1; result.iterations <= options.max_iterations; ++result.iterations) {
    const at::Tensor log_u = log_p - through(log_v, back);
    const at::Tensor sent = through(log_u, kernel);
    const at::Tensor next = (w * sent).sum(0);  // log b = Σ w_k log Kᵀu_k
    log_v = next.unsqueeze(0) - sent;
    const double change = log_b.defined() ? (next.exp() - log_b.exp()).abs().sum().item<double>() : 1;
    log_b = next;
    if (change <= options.tolerance) {
      result.converged = true;
      break;
    }
  }
  const at::Tensor b = log_b.exp();
  result.histogram = b / b.sum();
  return result;
}

FreeSupportBarycentre free_support_barycentre(const std::vector<at::Tensor>& measures, const at::Tensor& weights,
                                              const at::Tensor& start, const BarycentreOptions& options) {
  const std::string where = "free_support_barycentre";
  if (measures.empty()) throw Error(ErrorKind::usage, where, "there are no measures");
  const at::Tensor w = normalized_marginal(weights, static_cast<int64_t>(measures.size()), where);
  FreeSupportBarycentre result;
  result.points = start.to(at::kDouble);
  const auto n = static_cast<double>(start.size(0));
  for (result.iterations = 1; result.iterations <= options.max_iterations; ++result.iterations) {
    result.plans.clear();
    at::Tensor next = at::zeros_like(result.points);
    for (size_t k = 0; k < measures.size(); ++k) {
      const at::Tensor Y = measures[k].to(at::kDouble);
      const at::Tensor T = solve_transport(ground_cost(Y, result.points, GroundCost::squared)).plan;
      next = next + w[static_cast<int64_t>(k)] * at::mm(T.t() * n, Y);
      result.plans.push_back(T);
    }
    const double moved = (next - result.points).norm().item<double>();
    result.points = next;
    if (moved <= options.tolerance * next.norm().item<double>()) {
      result.converged = true;
      break;
    }
  }
  return result;
}

}  // namespace pare
