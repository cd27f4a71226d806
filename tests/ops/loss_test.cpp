#include "ops/node_testing.h"

namespace pare {
namespace {

using namespace pare::testing;  // NOLINT: the vocabulary of these tests

TEST(Loss, CrossEntropyIsTheMeanOverCountedPlaces) {
  const auto x = distinct({4, 3});
  const auto y = ints({0, -1, 2, 1});
  const auto w = reals({1, 2, 3}, at::kDouble);
  const auto p = at::softmax(x, 1);
  const double expected = -(std::log(p[0][0].item<double>()) + 3 * std::log(p[2][2].item<double>()) +
                            2 * std::log(p[3][1].item<double>())) /
                          6;
  const auto loss = run("SoftmaxCrossEntropyLoss", {x, y, w}, {{"ignore_index", integer(-1)}}, 2);
  EXPECT_NEAR(loss[0].item<double>(), expected, 1e-12);
  expect_close(loss[1], p.log());
}

TEST(Loss, GradientsFlow) {
  const auto x = distinct({2, 3, 2});
  const auto y = ints({0, 2, 1, 1}).reshape({2, 2});
  for (const char* reduction : {"mean", "sum", "none"}) {
    expect_gradient("SoftmaxCrossEntropyLoss", {x, y}, 0,
                    {{"reduction", text(reduction)}, {"ignore_index", integer(2)}});
    expect_gradient("NegativeLogLikelihoodLoss", {x, y, reals({1, 2, 3}, at::kDouble)}, 0,
                    {{"reduction", text(reduction)}});
  }
}

TEST(Loss, RefusesWhatDoesNotFit) {
  const auto x = distinct({4, 3});
  for (const char* op : {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"}) {
    EXPECT_EQ(error_kind(op, {x, ints({0, 1, 2, 3})}), "format");
    EXPECT_EQ(error_kind(op, {x, ints({0, 1, 2, -1})}), "format");
    EXPECT_EQ(error_kind(op, {x, ints({0, 1, 2})}), "shape");
    EXPECT_EQ(error_kind(op, {x, ints({0, 1, 2, 0}), reals({1, 2})}), "shape");
    EXPECT_EQ(error_kind(op, {x, ints({0, 1, 2, 0})}, {{"reduction", text("median")}}), "format");
    EXPECT_EQ(error_kind(op, {at::ones({4}), ints({0})}), "shape");
  }
}

}  // namespace
}  // namespace pare
