// Outputs of two models over several samples.
#include "pare/workflow/compare.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/error.h"
#include "support/builder.h"

namespace pare {
namespace {

using InputList = std::vector<std::vector<at::Tensor>>;

Graph with_constant(const char* op, double constant) {
  TestGraph net;
  const std::string x = net.input("x", {1, 4});
  return net.finish(net.node(op, {x, net.tensor(at::full({4}, constant, at::kDouble))}));
}

TEST(CompareModels, LargestDifferencesAreOfAllSamples) {
  const at::Tensor even = at::ones({1, 4}, at::kDouble);
  at::Tensor peaked = at::zeros({1, 4}, at::kDouble);
  peaked[0][0] = 10;
  // One sample has more elements outside, the other the larger difference.
  for (const InputList& samples : {InputList{{even}, {peaked}}, InputList{{peaked}, {even}}}) {
    const auto all = compare_models(with_constant("Mul", 1), with_constant("Mul", 2), samples, {});
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].largest, 10);
    EXPECT_EQ(all[0].outside, 5);
    EXPECT_FALSE(all[0].ok());
  }
}

TEST(CompareModels, ASampleMoreMakesNoFigureSmaller) {
  const Graph a = with_constant("Mul", 1);
  const Graph b = with_constant("Add", 1);
  InputList samples;
  Difference before;
  for (const double size : {1.0, 100.0, 1e6, 0.001, 10.0}) {
    samples.push_back({at::full({1, 4}, size, at::kDouble)});
    const Difference now = compare_models(a, b, samples, {})[0];
    EXPECT_GE(now.largest, before.largest) << size;
    EXPECT_GE(now.relative_to_largest, before.relative_to_largest) << size;
    EXPECT_GE(now.outside, before.outside) << size;
    before = now;
  }
  EXPECT_NEAR(before.relative_to_largest, 1000, 1e-6);  // of the smallest sample
  EXPECT_EQ(before.outside, 16);                        // 1 of a million is within the tolerance
}

// NaN equals NaN, and is counted: a comparison of nothing else says nothing.
TEST(CompareModels, CountsWhatIsNaNInBoth) {
  const Graph zero_times = with_constant("Mul", 0);
  at::Tensor some = at::ones({1, 4}, at::kDouble);
  some[0][1] = INFINITY, some[0][3] = INFINITY;  // 0 · ∞
  const auto all = compare_models(zero_times, zero_times, InputList{{some}, {at::ones({1, 4}, at::kDouble)}}, {});
  EXPECT_TRUE(all[0].ok());
  EXPECT_EQ(all[0].nan, 2);
  EXPECT_EQ(all[0].elements, 8);
  EXPECT_EQ(compare_models(zero_times, with_constant("Mul", 1), InputList{{some}}, {})[0].nan, 0);
}

TEST(CompareModels, TheSameModelHasNoDifference) {
  const Graph a = with_constant("Mul", 3);
  const auto all =
      compare_models(a, a, InputList{{at::ones({1, 4}, at::kDouble)}, {at::zeros({1, 4}, at::kDouble)}}, {});
  ASSERT_EQ(all.size(), 1U);
  EXPECT_TRUE(all[0].ok());
  EXPECT_EQ(all[0].largest, 0);
  EXPECT_EQ(all[0].name, a.outputs[0].name);
}

TEST(CompareModels, ModelsThatCannotAgreeAreAFailedVerification) {
  const Graph a = with_constant("Mul", 3);
  TestGraph wider;
  const Graph other_shape = wider.finish(wider.linear(wider.input("x", {1, 8}), 8, 4));
  TestGraph two;
  const std::string x = two.input("x", {1, 4});
  const Graph other_inputs = two.finish(two.node("Add", {x, two.input("y", {1, 4})}));
  Graph other_outputs = a;
  other_outputs.outputs.push_back(a.outputs[0]);
  for (const Graph& b : {other_shape, other_inputs, other_outputs}) {
    try {
      compare_models(a, b, InputList{{at::ones({1, 4}, at::kDouble)}}, {});
      ADD_FAILURE() << "they were compared";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::verification) << error.what();
    }
  }
  // A first model that does not take the inputs is another matter.
  try {
    compare_models(other_shape, a, InputList{{at::ones({1, 4}, at::kDouble)}}, {});
    ADD_FAILURE() << "they were compared";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::shape) << error.what();
  }
}

}  // namespace
}  // namespace pare
