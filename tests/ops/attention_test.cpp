// Attention, rotary embeddings and linear attention, held against their formulas written out entry by entry.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/node_testing.h"

namespace pare {
namespace {

using namespace testing;

at::Tensor some(const Ints& dims, uint64_t seed) {
  at::manual_seed(seed);
  return at::randn(dims, at::kDouble);
}

double at4(const at::Tensor& x, int64_t a, int64_t b, int64_t c, int64_t d) { return x[a][b][c][d].item<double>(); }

// Every query by itself: scores of the keys that it may see, their softmax, the mean of the values.
at::Tensor slow_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t offset, bool causal) {
  at::Tensor y = at::zeros({q.size(0), q.size(1), q.size(2), v.size(3)}, at::kDouble);
  const int64_t serves = q.size(1) / k.size(1);
  for (int64_t b = 0; b < q.size(0); ++b)
    for (int64_t h = 0; h < q.size(1); ++h)
      for (int64_t i = 0; i < q.size(2); ++i) {
        std::vector<double> weights;
        double total = 0;
        for (int64_t j = 0; j < k.size(2); ++j) {
          double score = 0;
          for (int64_t d = 0; d < q.size(3); ++d) score += at4(q, b, h, i, d) * at4(k, b, h / serves, j, d);
          const bool seen = !causal || j <= i + offset;
          weights.push_back(seen ? std::exp(score / std::sqrt(static_cast<double>(q.size(3)))) : 0);
          total += weights.back();
        }
        for (int64_t d = 0; d < v.size(3); ++d) {
          double sum = 0;
          for (int64_t j = 0; j < k.size(2); ++j) sum += weights[static_cast<size_t>(j)] * at4(v, b, h / serves, j, d);
          y[b][h][i][d] = total > 0 ? sum / total : 0;
        }
      }
  return y;
}

TEST(Attention, IsTheMeanOfValuesByTheSoftmaxOfScores) {
  const at::Tensor q = some({2, 4, 3, 5}, 1), k = some({2, 2, 6, 5}, 2), v = some({2, 2, 6, 7}, 3);
  expect_close(run("Attention", {q, k, v}, {}, 4)[0], slow_attention(q, k, v, 0, false), 1e-9);
  expect_close(run("Attention", {q, k, v}, {{"is_causal", integer(1)}}, 4)[0], slow_attention(q, k, v, 0, true), 1e-9);
}

TEST(Attention, PutsPastKeysBeforeNewOnes) {
  const at::Tensor q = some({1, 2, 3, 4}, 1), k = some({1, 2, 3, 4}, 2), v = some({1, 2, 3, 4}, 3);
  const at::Tensor past_k = some({1, 2, 5, 4}, 4), past_v = some({1, 2, 5, 4}, 5);
  const auto y = run("Attention", {q, k, v, {}, past_k, past_v}, {{"is_causal", integer(1)}}, 3);
  const at::Tensor all_k = at::cat({past_k, k}, 2), all_v = at::cat({past_v, v}, 2);
  expect_close(y[0], slow_attention(q, all_k, all_v, 5, true), 1e-9);
  EXPECT_TRUE(y[1].equal(all_k));
  EXPECT_TRUE(y[2].equal(all_v));
}

TEST(Attention, OfThreeAxesIsThatOfItsHeads) {
  const at::Tensor q = some({2, 3, 8}, 1), k = some({2, 6, 4}, 2), v = some({2, 6, 6}, 3);
  const auto heads = [](const at::Tensor& x, int64_t n) {
    return x.reshape({x.size(0), x.size(1), n, x.size(2) / n}).transpose(1, 2).contiguous();
  };
  const at::Tensor expected = slow_attention(heads(q, 4), heads(k, 2), heads(v, 2), 0, false);
  const auto y = run("Attention", {q, k, v}, {{"q_num_heads", integer(4)}, {"kv_num_heads", integer(2)}});
  expect_close(y[0], expected.transpose(1, 2).reshape({2, 3, 12}), 1e-9);
}

TEST(Attention, AQueryThatSeesNothingGivesZeros) {
  const at::Tensor q = some({1, 1, 2, 4}, 1), k = some({1, 1, 3, 4}, 2), v = some({1, 1, 3, 4}, 3);
  const at::Tensor mask = at::tensor({1, 0, 1, 0, 0, 0}, at::kInt).to(at::kBool).reshape({2, 3});
  const at::Tensor y = run("Attention", {q, k, v, mask})[0];
  EXPECT_EQ(y[0][0][1].abs().max().item<double>(), 0);
  EXPECT_GT(y[0][0][0].abs().max().item<double>(), 0);
}

TEST(Attention, HasGradients) {
  const at::Tensor q = some({1, 2, 3, 4}, 1), k = some({1, 1, 3, 4}, 2), v = some({1, 1, 3, 4}, 3);
  for (const size_t input : {0, 1, 2}) expect_gradient("Attention", {q, k, v}, input, {{"is_causal", integer(1)}});
}

TEST(Attention, RefusesWhatDoesNotGoTogether) {
  const at::Tensor q = some({1, 3, 2, 4}, 1), k = some({1, 2, 2, 4}, 2);
  EXPECT_EQ(error_kind("Attention", {q, k, k}), "shape");  // three heads on two
  EXPECT_EQ(error_kind("Attention", {some({1, 2, 7}, 1), some({1, 2, 7}, 1), some({1, 2, 7}, 1)},
                       {{"q_num_heads", integer(2)}, {"kv_num_heads", integer(2)}}),
            "shape");
}

// A turn by an angle and back is nothing, and lengths stay.
TEST(RotaryEmbedding, Turns) {
  const at::Tensor x = some({2, 3, 5, 8}, 1), angle = some({1, 5, 4}, 2);
  for (const int64_t interleaved : {0, 1}) {
    const Attributes form = {{"interleaved", integer(interleaved)}};
    const at::Tensor y = run("RotaryEmbedding", {x, angle.cos(), angle.sin()}, form)[0];
    expect_close(y.square().sum(-1), x.square().sum(-1), 1e-9);
    expect_close(run("RotaryEmbedding", {y, angle.cos(), -angle.sin()}, form)[0], x, 1e-9);
    const auto pair = interleaved == 1 ? std::pair{2, 3} : std::pair{1, 5};
    const double c = angle[0][4][1].cos().item<double>(), s = angle[0][4][1].sin().item<double>();
    EXPECT_NEAR(at4(y, 1, 2, 4, pair.first), c * at4(x, 1, 2, 4, pair.first) - s * at4(x, 1, 2, 4, pair.second), 1e-12);
  }
}

TEST(RotaryEmbedding, TakesRowsOfATableAndLeavesTheRestOfAHead) {
  const at::Tensor x = some({2, 5, 16}, 1), table = some({9, 2}, 2);
  const at::Tensor places = ints({0, 1, 2, 3, 4, 4, 5, 6, 7, 8}).reshape({2, 5});
  const at::Tensor y = run("RotaryEmbedding", {x, table.cos(), table.sin(), places},
                           {{"num_heads", integer(2)}, {"rotary_embedding_dim", integer(4)}})[0];
  expect_close(y.reshape({2, 5, 2, 8}).narrow(3, 4, 4), x.reshape({2, 5, 2, 8}).narrow(3, 4, 4), 1e-12);
  EXPECT_EQ(error_kind("RotaryEmbedding", {x, table.cos(), table.sin(), places + 1},
                       {{"num_heads", integer(2)}, {"rotary_embedding_dim", integer(4)}}),
            "format");
}

// Without gates the state is a sum of outer products, and attention without a softmax.
TEST(LinearAttention, IsAttentionWithoutASoftmax) {
  const at::Tensor q = some({1, 4, 6}, 1), k = some({1, 4, 6}, 2), v = some({1, 4, 10}, 3);
  const auto y = run("LinearAttention", {q, k, v},
                     {{"q_num_heads", integer(2)}, {"kv_num_heads", integer(2)}, {"update_rule", text("linear")}}, 2);
  const auto heads = [](const at::Tensor& x) { return x.reshape({1, 4, 2, -1}).transpose(1, 2); };
  const at::Tensor scores = at::tril(at::matmul(heads(q), heads(k).transpose(2, 3))) / std::sqrt(3.0);
  expect_close(y[0], at::matmul(scores, heads(v)).transpose(1, 2).reshape({1, 4, 10}), 1e-9);
}

TEST(LinearAttention, GoesOnFromAState) {
  const at::Tensor q = some({1, 6, 6}, 1), k = some({1, 6, 6}, 2), v = some({1, 6, 6}, 3);
  const at::Tensor decay = -some({1, 6, 2}, 4).abs(), beta = some({1, 6, 2}, 5).sigmoid();
  const Attributes form = {{"q_num_heads", integer(2)}, {"kv_num_heads", integer(2)}};
  const auto whole = run("LinearAttention", {q, k, v, {}, decay, beta}, form, 2);
  const auto part = [&](int64_t from, int64_t count, const at::Tensor& state) {
    const auto cut = [&](const at::Tensor& x) { return x.narrow(1, from, count); };
    return run("LinearAttention", {cut(q), cut(k), cut(v), state, cut(decay), cut(beta)}, form, 2);
  };
  const auto first = part(0, 2, {});
  const auto second = part(2, 4, first[1]);
  expect_close(at::cat({first[0], second[0]}, 1), whole[0], 1e-9);
  expect_close(second[1], whole[1], 1e-9);
}

}  // namespace
}  // namespace pare
