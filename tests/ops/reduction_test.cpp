#include <limits>

#include "ops/node_testing.h"

namespace pare {
namespace {

using namespace pare::testing;  // NOLINT: the vocabulary of these tests

const char* const kReductions[] = {"ReduceSum", "ReduceMean", "ReduceMax",       "ReduceMin",    "ReduceProd",
                                   "ReduceL1",  "ReduceL2",   "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"};

TEST(Reduction, EmptySetsGiveTheNeutralElement) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::map<std::string, double> expected{
      {"ReduceSum", 0}, {"ReduceProd", 1},      {"ReduceMax", -inf},    {"ReduceMin", inf},       {"ReduceL1", 0},
      {"ReduceL2", 0},  {"ReduceSumSquare", 0}, {"ReduceLogSum", -inf}, {"ReduceLogSumExp", -inf}};
  for (const auto& [op, value] : expected) {
    SCOPED_TRACE(op);
    expect_close(run(op, {at::zeros({2, 0, 3}), ints({1})})[0], at::full({2, 1, 3}, value));
  }
  const auto smallest = run("ReduceMax", {at::zeros({0}, at::kInt)}, {{"keepdims", integer(0)}})[0];
  EXPECT_EQ(smallest.item<int64_t>(), std::numeric_limits<int32_t>::min());
}

TEST(Reduction, KeepsTypesRanksAndScalars) {
  for (const char* op : kReductions) {
    SCOPED_TRACE(op);
    for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kInt, at::kLong}) {
      const auto x = at::arange(1, 13, at::kLong).to(dtype).reshape({2, 3, 2});
      EXPECT_EQ(run(op, {x, ints({-1, 0})}, {{"keepdims", integer(0)}})[0].sizes(), Ints({3}));
      EXPECT_EQ(run(op, {x})[0].sizes(), Ints({1, 1, 1}));
      EXPECT_EQ(run(op, {x, ints({})}, {{"noop_with_empty_axes", integer(1)}})[0].sizes(), x.sizes());
    }
    EXPECT_EQ(run(op, {at::ones({})})[0].dim(), 0);
    EXPECT_EQ(error_kind(op, {at::ones({2, 2}), ints({2})}), "format");
    EXPECT_EQ(error_kind(op, {at::ones({2, 2}), ints({1, -1})}), "format");
    EXPECT_EQ(error_kind(op, {at::ones({2, 2}), reals({1})}), "format");
    expect_gradient(op, {distinct({2, 3, 2}) + 1, ints({0, 2})}, 0);
  }
  EXPECT_EQ(run("ReduceMean", {ints({1, 2, 4})})[0].item<int64_t>(), 2);
}

TEST(Reduction, ChannelsAlongOtherAxesPass) {
  LabelRun mean("ReduceMean", {at::ones({2, 3, 4, 4}), ints({2, 3})}, {{"keepdims", integer(0)}});
  mean.label(0, 1);
  mean.know(1);
  mean.run();
  EXPECT_EQ(mean.out_ids[0].sizes(), Ints({1, 3}));
  EXPECT_FALSE(mean.sets.frozen(0));

  LabelRun unknown("ReduceMean", {at::ones({2, 3, 4}), ints({2})});
  unknown.label(0, 1);
  unknown.run();
  EXPECT_TRUE(unknown.sets.frozen(0));
}

TEST(Reduction, ChannelsThatAreSummedMayGoOthersMayNot) {
  for (const char* op : kReductions) {
    LabelRun reduce(op, {at::ones({2, 3, 4}), ints({1})});
    reduce.label(0, 1);
    reduce.know(1);
    reduce.run();
    EXPECT_FALSE(reduce.out_ids[0].defined());
    const bool sum = std::string(op) == "ReduceSum" || std::string(op).find("L1") != std::string::npos ||
                     std::string(op).find("L2") != std::string::npos || std::string(op) == "ReduceSumSquare";
    EXPECT_EQ(reduce.sets.frozen(0), !sum) << op;
  }
}

TEST(Softmax, OldFormWorksOnTheRowsOfAMatrix) {
  const auto x = distinct({2, 3, 4});
  expect_close(run("Softmax", {x}, {{"axis", integer(1)}, {"flatten", integer(1)}})[0],
               at::softmax(x.reshape({2, 12}), 1).reshape({2, 3, 4}));
  expect_close(run("Softmax", {x}, {{"axis", integer(1)}})[0], at::softmax(x, 1));
  expect_close(run("LogSoftmax", {x})[0], at::log_softmax(x, 2));
  EXPECT_EQ(run("Hardmax", {x.to(at::kHalf)})[0].sum().item<double>(), 6);
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    expect_gradient(op, {x}, 0, {{"axis", integer(-2)}});
    EXPECT_EQ(error_kind(op, {x}, {{"axis", integer(3)}}), "format");
  }
}

TEST(Softmax, MixesChannelsOnlyAlongItsAxis) {
  for (const int64_t axis : {1, 2}) {
    LabelRun softmax("Softmax", {at::ones({2, 3, 4})}, {{"axis", integer(axis)}});
    softmax.label(0, 1);
    softmax.run();
    EXPECT_EQ(softmax.sets.frozen(0), axis == 1);
    EXPECT_EQ(softmax.out_ids[0].defined(), axis == 2);
  }
}

TEST(Ranking, TopKPrefersTheLowerIndexOfEquals) {
  const auto x = reals({1, 3, 3, 2, 3}).reshape({1, 5});
  const auto top = run("TopK", {x, ints({2})}, {}, 2);
  EXPECT_TRUE(at::equal(top[1], ints({1, 2}).reshape({1, 2})));
  const auto bottom = run("TopK", {x.to(at::kHalf), ints({3})}, {{"largest", integer(0)}}, 2);
  EXPECT_TRUE(at::equal(bottom[1], ints({0, 3, 1}).reshape({1, 3})));
  EXPECT_EQ(error_kind("TopK", {x, ints({6})}), "format");
  EXPECT_EQ(error_kind("TopK", {x, ints({-1})}), "format");
  EXPECT_EQ(error_kind("TopK", {at::ones({}), ints({1})}), "shape");
  expect_gradient("TopK", {distinct({3, 4}), ints({2})}, 0, {{"axis", integer(0)}});
}

TEST(Ranking, ArgMaxOfNothingIsAnError) {
  EXPECT_EQ(error_kind("ArgMax", {at::ones({2, 0})}, {{"axis", integer(1)}}), "shape");
  EXPECT_EQ(error_kind("ArgMin", {at::ones({2, 2})}, {{"axis", integer(-3)}}), "format");
  const auto x = reals({1, 2, 2, 0}).reshape({1, 4});
  EXPECT_EQ(run("ArgMax", {x}, {{"axis", integer(1)}, {"select_last_index", integer(1)}})[0].item<int64_t>(), 2);
}

TEST(Ranking, CumSumRunsBothWays) {
  const auto x = at::tensor(Ints{1, 2, 3}, at::kInt);
  EXPECT_TRUE(at::equal(run("CumSum", {x, ints({0})})[0], at::tensor(Ints{1, 3, 6}, at::kInt)));
  expect_close(run("CumSum", {x, ints({0})}, {{"exclusive", integer(1)}, {"reverse", integer(1)}})[0], ints({5, 3, 0}));
  EXPECT_EQ(error_kind("CumSum", {x, ints({1})}), "format");
  EXPECT_EQ(error_kind("CumSum", {x, ints({0, 0})}), "format");
  expect_gradient("CumSum", {distinct({3, 4}), ints({1})}, 0, {{"exclusive", integer(1)}});
}

TEST(Det, IsOfSquareMatrices) {
  expect_close(run("Det", {reals({1, 2, 3, 4}).reshape({2, 2})})[0], reals({-2}).reshape({}));
  EXPECT_EQ(error_kind("Det", {at::ones({2, 3})}), "shape");
  EXPECT_EQ(error_kind("Det", {at::ones({3})}), "shape");
  expect_gradient("Det", {distinct({2, 3, 3})}, 0);
}

}  // namespace
}  // namespace pare
