#include "pare/distill/soft_targets.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "pare/error.h"

namespace pare {
namespace {

struct Logits {
  at::Tensor z, t;
};

Logits random_logits() {
  at::manual_seed(3);
  return {(at::randn({3, 4}, at::kDouble) * 3).requires_grad_(), at::randn({3, 4}, at::kDouble) * 3};
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(SoftTargets, BinaryIsTheFormula) {
  const auto [z, t] = random_logits();
  const double T = 4;
  double sum = 0;
  for (int n = 0; n < 3; ++n)
    for (int c = 0; c < 4; ++c) {
      const double p = sigmoid(t[n][c].item<double>() / T), q = sigmoid(z[n][c].item<double>() / T);
      sum += p * std::log(p / q) + (1 - p) * std::log((1 - p) / (1 - q));
    }
  EXPECT_NEAR(soft_target_loss(z, t, T, true).item<double>(), T * T * sum / 12, 1e-14);
}

TEST(SoftTargets, SoftmaxIsTheFormula) {
  const auto [z, t] = random_logits();
  const double T = 2;
  const auto p = at::softmax(t / T, 1), q = at::softmax(z / T, 1);
  const double expected = T * T * (p * (p / q).log()).sum().item<double>() / 3;
  EXPECT_NEAR(soft_target_loss(z, t, T, false).item<double>(), expected, 1e-13);
}

TEST(SoftTargets, OfTheSameLogitsIsZero) {
  const auto [z, t] = random_logits();
  for (const bool multi_label : {false, true}) {
    EXPECT_NEAR(soft_target_loss(t, t, 4, multi_label).item<double>(), 0, 1e-16);
    const at::Tensor far = t * 100;  // saturated, and finite
    EXPECT_TRUE(std::isfinite(soft_target_loss(-far, far, 1, multi_label).item<double>()));
  }
}

TEST(SoftTargets, BinaryGradient) {
  const auto [z, t] = random_logits();
  for (const double T : {0.5, 1.0, 4.0}) {
    z.mutable_grad() = at::Tensor();
    soft_target_loss(z, t, T, true).backward();
    const auto expected = T * ((z.detach() / T).sigmoid() - (t / T).sigmoid()) / 12;
    EXPECT_LT((z.grad() - expected).abs().max().item<double>(), 1e-16 * 10) << T;
  }
  z.mutable_grad() = at::Tensor();
  soft_target_loss(z, t, 1e5, true).backward();
  EXPECT_LT((z.grad() - (z.detach() - t) / (4 * 12)).abs().max().item<double>(), 1e-10);
}

TEST(SoftTargets, NothingFlowsBackIntoTheTeacher) {
  const auto [z, t] = random_logits();
  const at::Tensor teacher = t.clone().requires_grad_();
  soft_target_loss(z, teacher, 4, true).backward();
  EXPECT_FALSE(teacher.grad().defined());
}

TEST(SoftTargets, OtherClassesAreRefused) {
  const auto [z, t] = random_logits();
  EXPECT_THROW(soft_target_loss(z, t.narrow(1, 0, 3), 4, true), Error);
}

}  // namespace
}  // namespace pare
