#include "ops/node_testing.h"

namespace pare {
namespace {

using namespace pare::testing;  // NOLINT: the vocabulary of these tests

TEST(Constant, TakesEveryKindOfValue) {
  expect_close(run("Constant", {}, {{"value", reals({1, 2})}})[0], reals({1, 2}));
  EXPECT_EQ(run("Constant", {}, {{"value_int", integer(7)}})[0].item<int64_t>(), 7);
  EXPECT_EQ(run("Constant", {}, {{"value_float", 0.5}})[0].item<float>(), 0.5F);
  EXPECT_EQ(run("Constant", {}, {{"value_ints", Ints{1, 2}}})[0].scalar_type(), at::kLong);
  EXPECT_EQ(run("Constant", {}, {{"value_floats", Reals{1, 2}}})[0].scalar_type(), at::kFloat);
  EXPECT_EQ(error_kind("Constant", {}, {{"value_string", text("x")}}), "unsupported");
  EXPECT_EQ(error_kind("Constant", {}, {{"value", integer(1)}}), "format");
}

TEST(Constant, OfShape) {
  EXPECT_EQ(run("ConstantOfShape", {ints({})})[0].dim(), 0);
  EXPECT_EQ(run("ConstantOfShape", {ints({0, 2})}, {{"value", ints({3})}})[0].sizes(), Ints({0, 2}));
  EXPECT_EQ(error_kind("ConstantOfShape", {ints({-1})}), "format");
  EXPECT_EQ(error_kind("ConstantOfShape", {ints({INT64_MAX, INT64_MAX})}), "format");
  EXPECT_EQ(error_kind("ConstantOfShape", {ints({1})}, {{"value", ints({3, 4})}}), "format");
}

TEST(Constant, RangeRefusesStandingStill) {
  EXPECT_EQ(run("Range", {ints({3}).reshape({}), ints({9}).reshape({}), ints({-3}).reshape({})})[0].numel(), 0);
  EXPECT_EQ(error_kind("Range", {ints({3}), ints({9}), ints({0})}), "format");
  EXPECT_EQ(error_kind("Range", {reals({3}), reals({NAN}), reals({1})}), "format");
  EXPECT_EQ(error_kind("Range", {ints({3, 4}), ints({9}), ints({1})}), "format");
}

TEST(Cast, CutsOffFractions) {
  const auto x = reals({-1.9, -0.5, 0, 0.5, 2.9});
  EXPECT_TRUE(at::equal(run("Cast", {x}, {{"to", integer(7)}})[0], ints({-1, 0, 0, 0, 2})));
  EXPECT_TRUE(at::equal(run("Cast", {x}, {{"to", integer(9)}})[0], ints({1, 1, 0, 1, 1}).to(at::kBool)));
  EXPECT_EQ(run("CastLike", {x, at::ones({1}, at::kHalf)})[0].scalar_type(), at::kHalf);
  EXPECT_EQ(error_kind("Cast", {x}), "format");
  EXPECT_EQ(error_kind("Cast", {x}, {{"to", integer(8)}}), "unsupported");
  EXPECT_EQ(error_kind("Cast", {x}, {{"to", integer(12345)}}), "unsupported");
  expect_gradient("Cast", {distinct({3})}, 0, {{"to", integer(11)}});
}

TEST(BitShift, FarShiftsLeaveNothing) {
  const auto x = ints({1, 128, 255}).to(at::kByte);
  const auto by = ints({7, 1, 200}).to(at::kByte);
  EXPECT_TRUE(at::equal(run("BitShift", {x, by}, {{"direction", text("LEFT")}})[0], ints({128, 0, 0}).to(at::kByte)));
  EXPECT_TRUE(at::equal(run("BitShift", {x, by}, {{"direction", text("RIGHT")}})[0], ints({0, 64, 0}).to(at::kByte)));
  EXPECT_EQ(error_kind("BitShift", {x, by}), "format");
}

TEST(Quantization, GoesThereAndBack) {
  const auto x = distinct({2, 3, 4}).to(at::kFloat);
  const auto scale = reals({0.01, 0.02, 0.03});
  const auto zero = ints({0, -3, 5}).to(at::kChar);
  const auto y = run("QuantizeLinear", {x, scale, zero})[0];
  EXPECT_EQ(y.scalar_type(), at::kChar);
  expect_close(run("DequantizeLinear", {y, scale, zero})[0], x, 0.016);
  // Two blocks of two and one of one along the last axis.
  const auto line = reals({1, 2, 30, 40, 500}).unsqueeze(0);
  const auto steps = reals({1, 10, 100}).unsqueeze(0);
  const auto blocks = run("QuantizeLinear", {line, steps}, {{"block_size", integer(2)}, {"axis", integer(1)}})[0];
  EXPECT_TRUE(at::equal(blocks, ints({1, 2, 3, 4, 5}).to(at::kByte).unsqueeze(0)));
  expect_close(run("DequantizeLinear", {blocks, steps}, {{"block_size", integer(2)}})[0], line);
  EXPECT_EQ(error_kind("QuantizeLinear", {x, reals({1, 2})}), "shape");
  EXPECT_EQ(error_kind("QuantizeLinear", {x, reals({1, 2, 3})}, {{"axis", integer(3)}}), "format");
  EXPECT_EQ(error_kind("DynamicQuantizeLinear", {at::ones({0})}), "shape");
  EXPECT_EQ(run("DynamicQuantizeLinear", {at::zeros({3})}, {}, 3)[0].sum().item<int64_t>(), 0);
}

TEST(Random, ASeedRepeats) {
  for (const char* op : {"RandomNormalLike", "RandomUniformLike", "Bernoulli"}) {
    const auto x = at::full({100}, 0.5);
    EXPECT_TRUE(at::equal(run(op, {x}, {{"seed", 3.0}})[0], run(op, {x}, {{"seed", 3.0}})[0])) << op;
    EXPECT_EQ(run(op, {x}, {{"dtype", integer(11)}})[0].scalar_type(), at::kDouble);
  }
}

TEST(CastLabels, Pass) {
  LabelRun cast("Cast", {at::ones({2, 3})}, {{"to", integer(11)}});
  cast.label(0, 1);
  cast.run();
  EXPECT_TRUE(at::equal(cast.out_ids[0], cast.ids[0]));
}

}  // namespace
}  // namespace pare
