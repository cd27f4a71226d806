#include "pare/distill/attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "pare/distill/sensitivity.h"
#include "pare/error.h"

namespace pare {
namespace {

at::Tensor random_maps(int64_t seed) {
  at::manual_seed(seed);
  return at::rand({5, 3, 4}, at::kDouble);
}

double R(const at::Tensor& a, const at::Tensor& b) { return map_distance(a, b).item<double>(); }

TEST(Attention, MapIsTheFormula) {
  at::manual_seed(1);
  const auto A = at::randn({2, 3, 4, 5}, at::kDouble);
  const auto M = attention_map(A);
  for (int n = 0; n < 2; ++n)
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 5; ++x) {
        double sum = 0;
        for (int k = 0; k < 3; ++k) sum += std::pow(A[n][k][y][x].item<double>(), 2);
        EXPECT_NEAR(M[n][y][x].item<double>(), sum / 3, 1e-15);
      }
}

TEST(Attention, DistanceIsThatOfTheCosines) {
  const auto a = random_maps(1), b = random_maps(2);
  double expected = 0;
  for (int n = 0; n < 5; ++n) {
    double dot = 0, aa = 0, bb = 0;
    for (int y = 0; y < 3; ++y)
      for (int x = 0; x < 4; ++x) {
        const double u = a[n][y][x].item<double>(), v = b[n][y][x].item<double>();
        dot += u * v, aa += u * u, bb += v * v;
      }
    expected += 2 * (1 - dot / std::sqrt(aa * bb)) / 12 / 5;
  }
  EXPECT_NEAR(R(a, b), expected, 1e-16);
  EXPECT_EQ(R(a, a), 0);
  EXPECT_NEAR(R(a * 8, b * 0.25), R(a, b), 1e-16);
}

TEST(Attention, DisjointMapsAreTwoOverPApart) {
  auto a = at::zeros({2, 3, 4}, at::kDouble), b = a.clone();
  a.select(2, 0).fill_(0.5);
  b.select(2, 3).fill_(7);
  EXPECT_NEAR(R(a, b), 2.0 / 12, 1e-17);
}

TEST(Attention, ChannelOrderDoesNotMatter) {
  at::manual_seed(4);
  const auto A = at::randn({2, 6, 3, 3}, at::kDouble), B = at::randn({2, 4, 3, 3}, at::kDouble);
  const auto permuted = A.index_select(1, at::randperm(6));
  EXPECT_NEAR(R(attention_map(A), attention_map(B)), R(attention_map(permuted), attention_map(B)), 1e-17);
}

TEST(Attention, AnEmptyMapHasNoGradientAndIsFinite) {
  const auto a = random_maps(1);
  const auto zero = at::zeros_like(a).requires_grad_();
  const auto distance = map_distance(a, zero);
  EXPECT_NEAR(distance.item<double>(), 1.0 / 12, 1e-16);
  distance.backward();
  EXPECT_TRUE(zero.grad().isfinite().all().item<bool>());
  EXPECT_EQ(R(zero, zero), 0);
  // A student whose head is zero has such maps: nothing flows into its head, nor into the layer.
  at::manual_seed(6);
  const auto observed = [](const at::Tensor& A, const at::Tensor& head) {
    return Observation{.input = {}, .scores = at::matmul(A.flatten(1), head.t()), .layers = {A}};
  };
  const auto A_T = at::rand({3, 2, 2, 2}, at::kDouble).requires_grad_(), A_S = at::rand_like(A_T).requires_grad_();
  const auto head_T = at::rand({4, 8}, at::kDouble), head_S = at::zeros({4, 8}, at::kDouble).requires_grad_();
  const Observation teacher = observed(A_T, head_T), student = observed(A_S, head_S);
  const auto penalty = match_sensitivity({.teacher = teacher, .student = student, .labels = {}});
  EXPECT_NEAR(penalty.item<double>(), 1.0 / 4, 1e-15);
  penalty.backward();
  for (const auto& leaf : {A_S, head_S})
    EXPECT_TRUE(!leaf.grad().defined() || !leaf.grad().ne(0).any().item<bool>()) << leaf.grad();
}

TEST(Attention, OtherExtentsAreRefused) {
  const auto a = random_maps(1);
  EXPECT_THROW(map_distance(a, a.narrow(2, 0, 3)), Error);
}

TEST(Attention, LayersWithoutExtentAreRefused) {
  for (const auto& A : {at::rand({2, 6}), at::rand({2, 6, 1, 1}), at::rand({2, 6, 5})}) {
    try {
      attention_map(A);
      FAIL() << A.sizes();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::shape);
      EXPECT_NE(error.message().find("no spatial extent"), std::string::npos) << error.what();
    }
  }
}

TEST(Attention, FloorOfRhoCChannelsAreLeftOut) {
  at::manual_seed(5);
  const auto A = at::rand({3, 10, 2, 2}, at::kDouble) + 1;
  for (const double rho : {0.0, 0.05, 0.1, 0.39, 0.5, 1.0}) {
    const auto masked = without_channels(A, rho);
    const auto gone = masked.eq(0).all(3).all(2);  // [images, channels]
    EXPECT_EQ(gone[0].sum().item<int64_t>(), static_cast<int64_t>(std::floor(rho * 10))) << rho;
    EXPECT_TRUE(gone[0].equal(gone[1]) && gone[0].equal(gone[2]));
    EXPECT_TRUE(masked.equal(A * gone.logical_not().to(at::kDouble).unsqueeze(2).unsqueeze(3)));
  }
  EXPECT_FALSE(without_channels(A, 0.5).equal(without_channels(A, 0.5)));
}

}  // namespace
}  // namespace pare
