// Solvers against their own certificates, against a slow oracle and against each other. tests/peers/transport.sh
// compares with POT and SciPy.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "pare/error.h"
#include "pare/transport/assignment.h"
#include "pare/transport/barycentre.h"
#include "pare/transport/exact.h"
#include "pare/transport/ground_cost.h"
#include "pare/transport/sinkhorn.h"

namespace pare {
namespace {

double value(const at::Tensor& x) { return x.item<double>(); }

at::Tensor random_cost(int64_t m, int64_t n, int64_t kind) {
  switch (kind % 5) {
    case 0: return at::rand({m, n}, at::kDouble);
    case 1: return ground_cost(at::randn({m, 3}, at::kDouble), at::randn({n, 3}, at::kDouble));
    case 2: return at::randint(0, 4, {m, n}).to(at::kDouble);  // ties everywhere
    case 3: return at::randn({m, n}, at::kDouble) * 1e6;
    default: return at::full({m, n}, 0.25, at::kDouble);
  }
}

// Dual feasible, and no gap: then both are optimal.
void expect_certificate(const at::Tensor& C, const TransportPlan& p, const at::Tensor& a, const at::Tensor& b) {
  const double scale = std::max(1e-300, value(C.abs().max()));
  EXPECT_GE(value((C - p.u.unsqueeze(1) - p.v.unsqueeze(0)).min()), -1e-11 * scale);
  EXPECT_NEAR(p.cost, value((p.u * a).sum() + (p.v * b).sum()), 1e-10 * scale);
  EXPECT_NEAR(p.cost, value((p.plan * C).sum()), 1e-11 * scale);
  EXPECT_LE(value((p.plan.sum(1) - a).abs().max()), 1e-9);
  EXPECT_LE(value((p.plan.sum(0) - b).abs().max()), 1e-9);
  EXPECT_GE(value(p.plan.min()), 0);
}

double brute_force(const at::Tensor& C) {
  std::vector<int64_t> columns(static_cast<size_t>(C.size(1)));
  std::iota(columns.begin(), columns.end(), 0);
  double best = std::numeric_limits<double>::infinity();
  do {
    double sum = 0;
    for (int64_t i = 0; i < C.size(0); ++i) sum += value(C[i][columns[static_cast<size_t>(i)]]);
    best = std::min(best, sum);
  } while (std::next_permutation(columns.begin(), columns.end()));
  return best;
}

TEST(Assignment, EqualsBruteForce) {
  at::manual_seed(1);
  for (int64_t k = 0; k < 40; ++k) {
    const int64_t n = 1 + k % 5;
    const int64_t m = 1 + (k / 5) % n;
    const at::Tensor C = random_cost(m, n, k);
    const Assignment best = solve_assignment(C);
    const double scale = value(C.abs().max());
    EXPECT_NEAR(best.cost, brute_force(C), 1e-12 * std::max(1.0, scale)) << m << "x" << n;
  }
}

TEST(Assignment, HasACertificate) {
  at::manual_seed(2);
  for (int64_t k = 0; k < 200; ++k) {
    const int64_t n = k < 5 ? 1 : 2 + (k * 7) % 150;
    const int64_t m = k % 3 == 0 ? n : 1 + (k * 5) % n;
    const at::Tensor C = random_cost(m, n, k);
    const Assignment best = solve_assignment(C);
    const double scale = std::max(1e-300, value(C.abs().max()));
    const at::Tensor u = at::tensor(best.u, at::kDouble);
    const at::Tensor v = at::tensor(best.v, at::kDouble);
    std::vector<int> taken(static_cast<size_t>(n), 0);
    double sum = 0;
    for (int64_t i = 0; i < m; ++i) {
      const int64_t j = best.column[static_cast<size_t>(i)];
      EXPECT_EQ(taken[static_cast<size_t>(j)]++, 0);
      sum += value(C[i][j]);
    }
    EXPECT_NEAR(best.cost, sum, 1e-9 * scale);
    EXPECT_GE(value((C - u.unsqueeze(1) - v.unsqueeze(0)).min()), -1e-11 * scale);
    EXPECT_NEAR(best.cost, value(u.sum() + v.sum()), 1e-10 * scale * static_cast<double>(n));
    if (m < n) {
      EXPECT_LE(value(v.max()), 1e-11 * scale);
    }
  }
}

TEST(Assignment, RefusesWhatItCannotSolve) {
  EXPECT_THROW(solve_assignment(at::zeros({3, 2}, at::kDouble)), Error);
  EXPECT_THROW(solve_assignment(at::zeros({3}, at::kDouble)), Error);
  at::Tensor C = at::zeros({20, 20}, at::kDouble);
  C[3][19] = std::nan("");
  EXPECT_THROW(solve_assignment(C), Error);
  C[3][19] = INFINITY;
  EXPECT_THROW(solve_assignment(C), Error);
}

TEST(Exact, HasACertificate) {
  at::manual_seed(3);
  for (int64_t k = 0; k < 200; ++k) {
    const int64_t m = k < 5 ? 1 : 1 + (k * 11) % 90;
    const int64_t n = k < 3 ? 1 : 1 + (k * 7) % 70;
    const at::Tensor C = random_cost(m, n, k);
    at::Tensor a = uniform_marginal(m);
    at::Tensor b = uniform_marginal(n);
    if (k % 4 == 1) a = at::rand({m}, at::kDouble), b = at::rand({n}, at::kDouble);
    if (k % 4 == 2) a = at::randint(1, 6, {m}).to(at::kDouble), b = at::randint(1, 6, {n}).to(at::kDouble);
    if (k % 4 == 3) a = at::randint(0, 3, {m}).to(at::kDouble), a[0] = 1.0;  // points without mass
    a = a / a.sum();
    b = b / b.sum();
    expect_certificate(C, solve_transport(C, a, b), a, b);
  }
}

TEST(Exact, OfEqualUniformMarginalsIsTheAssignment) {
  at::manual_seed(4);
  for (const int64_t n : {1, 2, 17, 64, 200}) {
    const at::Tensor C = random_cost(n, n, 1);
    const TransportPlan plan = solve_transport(C);
    EXPECT_NEAR(plan.cost, solve_assignment(C).cost / static_cast<double>(n), 1e-12);
    EXPECT_NEAR(mass_split(plan.plan), 0, 1e-15);
    // The network simplex on marginals that are not quite uniform comes to the same.
    at::Tensor a = at::ones({n}, at::kDouble);
    a[0] += 1e-9;
    EXPECT_NEAR(solve_transport(C, a, at::ones({n}, at::kDouble)).cost, plan.cost, 1e-7);
  }
}

TEST(Exact, SplitsMassWhereWidthsDiffer) {
  const at::Tensor C = at::tensor({0.0, 1.0, 1.0, 0.0, 0.5, 0.5}, at::kDouble).reshape({3, 2});
  const TransportPlan plan = solve_transport(C);
  EXPECT_NEAR(plan.cost, 1.0 / 6, 1e-12);
  EXPECT_NEAR(mass_split(plan.plan), 1.0 / 6, 1e-12);
}

TEST(Exact, RefusesBadMarginals) {
  const at::Tensor C = at::rand({3, 2}, at::kDouble);
  const at::Tensor b = uniform_marginal(2);
  EXPECT_THROW(solve_transport(C, at::zeros({3}, at::kDouble), b), Error);
  EXPECT_THROW(solve_transport(C, at::tensor({1.0, -1.0, 1.0}, at::kDouble), b), Error);
  EXPECT_THROW(solve_transport(C, uniform_marginal(2), b), Error);
  at::Tensor lost = solve_transport(C).plan.clone();
  lost *= 0.5;
  EXPECT_THROW(check_plan(lost, uniform_marginal(3), b, 1e-9, "test"), Error);
}

TEST(Sinkhorn, EqualsTheScalingIterationWrittenOut) {
  at::manual_seed(5);
  const at::Tensor C = at::rand({7, 5}, at::kDouble);
  const at::Tensor a = at::rand({7}, at::kDouble);
  const at::Tensor b = at::rand({5}, at::kDouble);
  const double epsilon = 0.1 * value(C.max());
  const at::Tensor K = (-C / epsilon).exp();
  at::Tensor u = at::ones_like(a);
  at::Tensor v = at::ones_like(b);
  for (int k = 0; k < 20000; ++k) {
    u = a / a.sum() / at::mv(K, v);
    v = b / b.sum() / at::mv(K.t(), u);
  }
  const at::Tensor expected = u.unsqueeze(1) * K * v.unsqueeze(0);
  const TransportPlan found = sinkhorn(C, a, b, {.regularization = 0.1, .tolerance = 1e-12});
  EXPECT_TRUE(found.converged);
  EXPECT_LE(value((found.plan - expected).abs().max()), 1e-10);
}

TEST(Sinkhorn, GoesToTheExactPlan) {
  at::manual_seed(6);
  const at::Tensor C = random_cost(30, 20, 1);
  const double exact = solve_transport(C).cost;
  double last = INFINITY;
  for (const double epsilon : {0.1, 0.03, 0.01, 0.003, 0.001}) {
    const TransportPlan plan = sinkhorn(C, uniform_marginal(30), uniform_marginal(20), {.regularization = epsilon});
    EXPECT_GE(plan.cost, exact - 1e-12);
    EXPECT_LT(plan.cost, last);
    last = plan.cost;
  }
  EXPECT_NEAR(last, exact, 1e-3 * exact);
}

TEST(Sinkhorn, KeepsItsMassAtATinyRegularization) {
  at::manual_seed(7);
  const at::Tensor C = random_cost(40, 40, 1) * 1e4;
  const at::Tensor a = uniform_marginal(40);
  const TransportPlan plan = sinkhorn(C, a, a, {.regularization = 1e-5, .max_iterations = 500});
  check_plan(plan.plan, a, a, 1e-9, "test");
  EXPECT_NEAR(plan.cost, solve_transport(C).cost, 0.05 * plan.cost);
  EXPECT_NEAR(sinkhorn(at::zeros({3, 2}, at::kDouble), uniform_marginal(3), uniform_marginal(2)).cost, 0, 1e-15);
}

TEST(Barycentre, OfOneHistogramIsItsEntropicSelf) {
  const at::Tensor x = at::linspace(0, 1, 60, at::kDouble).unsqueeze(1);
  const at::Tensor C = ground_cost(x, x, GroundCost::squared);
  const auto bump = [&](double centre) { return (-(x.squeeze(1) - centre).square() / 0.005).exp(); };
  const auto mean = [&](const at::Tensor& p) { return value((p * x.squeeze(1)).sum() / p.sum()); };
  const at::Tensor two = at::stack({bump(0.2), bump(0.8)});
  const auto half = entropic_barycentre(two, C, at::ones({2}, at::kDouble), {.regularization = 0.002});
  EXPECT_TRUE(half.converged);
  EXPECT_NEAR(value(half.histogram.sum()), 1, 1e-12);
  EXPECT_NEAR(mean(half.histogram), 0.5, 1e-3);
  EXPECT_NEAR(x[half.histogram.argmax().item<int64_t>()].item<double>(), 0.5, 0.02);  // one bump between, not two
  const auto third = entropic_barycentre(two, C, at::tensor({2.0, 1.0}, at::kDouble), {.regularization = 0.002});
  EXPECT_NEAR(mean(third.histogram), 0.4, 1e-2);
}

TEST(Barycentre, OfShiftedPointsIsTheShiftBetween) {
  at::manual_seed(8);
  const at::Tensor Y = at::randn({12, 3}, at::kDouble);
  const at::Tensor other = (Y + 4.0).index_select(0, at::randperm(12));
  const auto found = free_support_barycentre({Y, other}, at::ones({2}, at::kDouble), Y);
  EXPECT_TRUE(found.converged);
  EXPECT_LE(value((found.points - (Y + 2.0)).abs().max()), 1e-9);
}

TEST(GroundCost, EqualsItsFormula) {
  at::manual_seed(9);
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const double tolerance = dtype == at::kFloat ? 1e-4 : 1e-9;
    const at::Tensor x = at::randn({9, 30}, dtype) + 5.0;
    at::Tensor y = at::randn({7, 30}, dtype) + 5.0;
    y[2] = x[4];
    y[3] = x[5] + 1e-4;
    const at::Tensor D = ground_cost(x, y);
    const at::Tensor S = ground_cost(x, y, GroundCost::squared);
    const at::Tensor A = ground_cost(x, y, GroundCost::cosine);
    for (int64_t i = 0; i < 9; ++i)
      for (int64_t j = 0; j < 7; ++j) {
        const at::Tensor p = x[i].to(at::kDouble);
        const at::Tensor q = y[j].to(at::kDouble);
        EXPECT_NEAR(value(D[i][j]), value((p - q).norm()), tolerance * value((p - q).norm()));
        EXPECT_NEAR(value(S[i][j]), value((p - q).square().sum()), tolerance * value((p - q).square().sum()));
        EXPECT_NEAR(value(A[i][j]), 1 - value((p * q).sum() / p.norm() / q.norm()), 1e-6);
      }
    EXPECT_EQ(value(D[4][2]), 0);
  }
}

}  // namespace
}  // namespace pare
