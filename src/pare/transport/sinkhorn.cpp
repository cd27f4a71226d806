#include "pare/transport/sinkhorn.h"

#include <ATen/ATen.h>

#include <cmath>

#include "pare/error.h"

namespace pare {

namespace {

constexpr double kAbsorb = 1e30;  // scalings beyond this (or its inverse) go into the potentials
constexpr double kLoose = 1e-2;   // how well a step above the last ε converges
constexpr int64_t kLooseSteps = 100;
constexpr int64_t kCheckEvery = 10;

class LogSinkhorn {
 public:
  LogSinkhorn(const at::Tensor& cost, const at::Tensor& a, const at::Tensor& b)
      : C_(cost),
        a_(a),
        b_(b),
        log_a_(a.log()),
        log_b_(b.log()),
        f_(at::zeros_like(a)),
        g_(at::zeros_like(b)),
        u_(at::ones_like(a)),
        v_(at::ones_like(b)) {}

  // Iterates at one ε until the row marginal is off by `tolerance` or the iterations are used up.
  bool solve(double epsilon, double tolerance, int64_t max_iterations) {
    absorb(epsilon);
    for (int64_t k = 1; k <= max_iterations; ++k) {
      ++iterations_;
      u_ = a_ / at::mv(kernel_, v_);
      v_ = b_ / at::mv(kernel_.t(), u_);
      if (k % kCheckEvery != 0 && k != max_iterations) continue;
      const double most = std::max(u_.max().item<double>(), v_.max().item<double>());
      const double least = std::min(positive_min(u_, a_), positive_min(v_, b_));
      if (!(most < kAbsorb) || !(least > 1 / kAbsorb)) {
        absorb(epsilon);
        continue;
      }
      const double error = (u_ * at::mv(kernel_, v_) - a_).abs().sum().item<double>();
      if (error <= tolerance) return true;
    }
    return false;
  }

  // f = ε (log a − log Σ_j exp((g_j − C_ij)/ε)), then g alike: one exact pair of updates, from the last potentials. The
  // scalings go in first, unless they are what overflowed.
  void absorb(double epsilon) {
    take_in(f_, u_, a_);
    take_in(g_, v_, b_);
    epsilon_ = epsilon;
    const at::Tensor scaled = C_ / -epsilon;
    f_ = log_a_ - at::logsumexp(scaled + (g_ / epsilon).unsqueeze(0), 1);
    g_ = log_b_ - at::logsumexp(scaled + f_.unsqueeze(1), 0);
    kernel_ = (scaled + f_.unsqueeze(1) + g_.unsqueeze(0)).exp_();
    f_ = f_ * epsilon;
    g_ = g_ * epsilon;
    // A point without mass has potential −∞ and an empty line in the kernel; its scaling is 0 whatever comes.
    u_ = (a_ > 0).to(at::kDouble);
    v_ = (b_ > 0).to(at::kDouble);
  }

  at::Tensor plan() const { return kernel_ * u_.unsqueeze(1) * v_.unsqueeze(0); }
  at::Tensor f() const { return f_ + epsilon_ * u_.log(); }
  at::Tensor g() const { return g_ + epsilon_ * v_.log(); }
  int64_t iterations() const { return iterations_; }

 private:
  static double positive_min(const at::Tensor& x, const at::Tensor& marginal) {
    return at::where(marginal > 0, x, at::ones_like(x)).min().item<double>();
  }

  void take_in(at::Tensor& potential, const at::Tensor& scaling, const at::Tensor& marginal) const {
    const at::Tensor more = epsilon_ * scaling.log();
    const at::Tensor usable = at::logical_and(more.isfinite(), marginal > 0);
    potential = at::where(usable, potential + more, potential);
  }

  at::Tensor C_, a_, b_, log_a_, log_b_;
  at::Tensor f_, g_, u_, v_, kernel_;
  double epsilon_ = 1;
  int64_t iterations_ = 0;
};

// The nearest plan in the sense of Altschuler et al.: rows and columns that are too heavy are scaled down, what is
// missing is added as a product.
at::Tensor round_to_marginals(at::Tensor plan, const at::Tensor& a, const at::Tensor& b) {
  const auto shrink = [](const at::Tensor& wanted, const at::Tensor& found) {
    return at::where(found > wanted, wanted / found, at::ones_like(wanted));
  };
  plan = plan * shrink(a, plan.sum(1)).unsqueeze(1);
  plan = plan * shrink(b, plan.sum(0)).unsqueeze(0);
  const at::Tensor row = a - plan.sum(1);
  const at::Tensor column = b - plan.sum(0);
  const double missing = row.sum().item<double>();
  return missing > 0 ? plan + at::outer(row, column).clamp_min(0) / missing : plan;
}

}  // namespace

TransportPlan sinkhorn(const at::Tensor& cost, const at::Tensor& a, const at::Tensor& b,
                       const SinkhornOptions& options) {
  const std::string where = "sinkhorn";
  const at::Tensor C = check_cost(cost, where);
  const double magnitude = checked_magnitude(C.data_ptr<double>(), C.numel(), where);
  if (!(options.regularization > 0) || !(options.scaling > 0 && options.scaling < 1))
    throw Error(ErrorKind::usage, where, "regularization {} must be positive and scaling {} between 0 and 1",
                options.regularization, options.scaling);
  const at::Tensor alpha = normalized_marginal(a, C.size(0), where);
  const at::Tensor beta = normalized_marginal(b, C.size(1), where);
  const double size = magnitude > 0 ? magnitude : 1;  // every plan costs the same where all costs are 0
  const double last = options.regularization * size;

  LogSinkhorn solver(C, alpha, beta);
  for (double epsilon = size; epsilon * options.scaling > last; epsilon *= options.scaling)
    solver.solve(epsilon, kLoose, kLooseSteps);
  TransportPlan result;
  result.converged = solver.solve(last, options.tolerance, options.max_iterations);
  result.plan = round_to_marginals(solver.plan(), alpha, beta);
  check_plan(result.plan, alpha, beta, 1e-9, where);
  result.cost = (result.plan * C).sum().item<double>();
  result.u = solver.f();
  result.v = solver.g();
  result.iterations = solver.iterations();
  return result;
}

}  // namespace pare
