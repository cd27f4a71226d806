// Batch normalisation in training against ATen's in double precision: values, gradients, gradients of gradients.
#include "pare/ops/batch_norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <mutex>
#include <set>
#include <thread>

namespace pare {
namespace {

struct BatchNormCase {
  int64_t n, channels, height, width;
};

class NormalizeBatchTest : public ::testing::TestWithParam<BatchNormCase> {
 protected:
  void SetUp() override {
    at::manual_seed(11);
    const auto [n, channels, height, width] = GetParam();
    x_ = (at::randn({n, channels, height, width}) * 2 + 3).contiguous(at::MemoryFormat::ChannelsLast);
    scale_ = at::rand({channels}) + 0.5;
    shift_ = at::randn({channels});
    weights_ = at::randn_like(x_);
  }

  at::Tensor x_, scale_, shift_, weights_;
};

double error(const at::Tensor& ours, const at::Tensor& expected) {
  return ((ours.to(at::kDouble) - expected).abs().max() / expected.abs().max()).item<double>();
}

at::Tensor leaf(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.to(type).clone().set_requires_grad(true);
}

// y, and by each input: the gradient of Σ weights · tanh(y), and that of the squares of these gradients.
std::vector<at::Tensor> values_and_gradients(const std::vector<at::Tensor>& in, const at::Tensor& weights,
                                             const std::function<at::Tensor(const std::vector<at::Tensor>&)>& layer) {
  std::vector<at::Tensor> result = {layer(in)};
  const at::Tensor loss = (result[0].tanh() * weights).sum();
  const auto plain = torch::autograd::grad({loss}, in, {}, /*retain_graph=*/true);
  const auto first = torch::autograd::grad({loss}, in, {}, true, /*create_graph=*/true);
  at::Tensor squares = first[0].square().sum();
  for (size_t i = 1; i < first.size(); ++i) squares = squares + first[i].square().sum();
  const auto second = torch::autograd::grad({squares}, {in[0], in[1]});
  result.insert(result.end(), plain.begin(), plain.end());
  result.insert(result.end(), first.begin(), first.end());
  result.insert(result.end(), second.begin(), second.end());
  return result;
}

TEST_P(NormalizeBatchTest, EqualsTheSlowWay) {
  ASSERT_TRUE(suits_normalize_batch(x_));
  constexpr double kEpsilon = 1e-3;
  const auto ours =
      values_and_gradients({leaf(x_, at::kFloat), leaf(scale_, at::kFloat), leaf(shift_, at::kFloat)}, weights_,
                           [](const auto& in) { return normalize_batch(in[0], in[1], in[2], kEpsilon).y; });
  const auto expected = values_and_gradients(
      {leaf(x_, at::kDouble), leaf(scale_, at::kDouble), leaf(shift_, at::kDouble)}, weights_.to(at::kDouble),
      [](const auto& in) {
        const at::Tensor centred = in[0] - in[0].mean({0, 2, 3}, true);
        const at::Tensor variance = centred.square().mean({0, 2, 3}, true);
        return centred * at::rsqrt(variance + kEpsilon) * in[1].reshape({1, -1, 1, 1}) + in[2].reshape({1, -1, 1, 1});
      });
  ASSERT_EQ(ours.size(), expected.size());
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_LT(error(ours[i], expected[i].detach()), 2e-5) << "result " << i;
}

TEST_P(NormalizeBatchTest, StatisticsAreThoseOfTheBatch) {
  const auto [y, mean, variance] = normalize_batch(x_, scale_, shift_, 1e-5);
  const at::Tensor exact = x_.to(at::kDouble);
  EXPECT_LT(error(mean, exact.mean({0, 2, 3})), 1e-6);
  EXPECT_LT(error(variance, exact.var(at::IntArrayRef{0, 2, 3}, /*unbiased=*/false)), 1e-5);
  EXPECT_FALSE(mean.requires_grad());
}

TEST_P(NormalizeBatchTest, IsTheSameForAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> results;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    results.push_back(normalize_batch(x_, scale_, shift_, 1e-5).y);
  }
  at::set_num_threads(threads);
  EXPECT_TRUE(results[0].equal(results[1]) && results[0].equal(results[2]));
}

INSTANTIATE_TEST_SUITE_P(Shapes, NormalizeBatchTest,
                         ::testing::Values(BatchNormCase{2, 8, 3, 3}, BatchNormCase{5, 11, 7, 4},
                                           BatchNormCase{16, 16, 16, 16}, BatchNormCase{3, 64, 9, 9},
                                           BatchNormCase{40, 129, 2, 1}, BatchNormCase{2, 9'000, 1, 1},
                                           BatchNormCase{8, 4, 12, 12}, BatchNormCase{2, 3, 8, 9},
                                           BatchNormCase{4, 1, 14, 14}, BatchNormCase{4, 7, 5, 5}));

TEST(NormalizeBatch, ValuesFarFromZeroKeepTheirVariance) {
  at::manual_seed(3);
  const at::Tensor x = (at::randn({32, 8, 16, 16}) + 1000).contiguous(at::MemoryFormat::ChannelsLast);
  const auto [y, mean, variance] = normalize_batch(x, at::ones(8), at::zeros(8), 0);
  EXPECT_LT(error(variance, x.to(at::kDouble).var(at::IntArrayRef{0, 2, 3}, false)), 1e-5);
  EXPECT_LT((y.var(at::IntArrayRef{0, 2, 3}, false) - 1).abs().max().item<double>(), 1e-3);
}

TEST(NormalizeBatch, LeavesOthersToTheSlowWay) {
  EXPECT_FALSE(suits_normalize_batch(at::zeros({2, 8, 4, 4})));  // channels first
  EXPECT_FALSE(suits_normalize_batch(at::zeros({1, 4, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast)));
  EXPECT_FALSE(suits_normalize_batch(at::zeros({2, 8, 4, 4}, at::kDouble).contiguous(at::MemoryFormat::ChannelsLast)));
  EXPECT_FALSE(suits_normalize_batch(at::zeros({2, 8})));
}

// at::parallel_for takes one thread wherever it is compiled without OpenMP, and does not say so.
TEST(ParallelForTest, TakesTheThreadsItMay) {
#if defined(__clang__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "built without OpenMP";
#endif
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  at::parallel_for(0, 2, 1, [&](int64_t, int64_t) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  at::set_num_threads(before);
  EXPECT_EQ(threads.size(), 2U);
}

}  // namespace
}  // namespace pare
