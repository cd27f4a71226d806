// Operators on inputs that nobody means well with: scalars where an axis is named, integers that trap, half precision
// without a kernel, results larger than memory.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/node_testing.h"
#include "pare/core/memory.h"

namespace pare {
namespace {

using namespace testing;

std::string evaluation_error(const std::string& op, const Tensors& inputs, Attributes attributes = {}) {
  const Node node = make_node(op, inputs, std::move(attributes));
  try {
    evaluate(require_op(node), {.node = node, .inputs = inputs});
  } catch (const Error& error) {
    EXPECT_NE(error.where().find("'n'"), std::string::npos) << error.what();
    return error.what();
  }
  return "";
}

// Every operator with an axis, given a scalar: an Error or a result, in evaluation and in inference, never a crash.
TEST(RankZero, OperatorsWithAnAxisRefuseOrCompute) {
  for (const OpDef* op : all_ops()) {
    for (const int64_t axis : {-1, 0, 1}) {
      for (const size_t count : {op->min_inputs, std::min<size_t>(op->max_inputs, op->min_inputs + 1)}) {
        Tensors inputs(std::max<size_t>(count, 1), at::scalar_tensor(1.5, at::kFloat));
        for (const bool integers : {false, true}) {
          if (integers)
            for (size_t i = 1; i < inputs.size(); ++i) inputs[i] = ints({axis});
          Attributes attributes;
          for (const char* name : {"axis", "batch_axis", "time_axis"})
            if (op->takes(name)) attributes[name] = axis;
          if (op->takes("axes")) attributes["axes"] = Ints{axis};
          if (op->type.starts_with("pare.")) continue;
          const Node node = make_node(std::string(op->type), inputs, attributes, op->type == "Split" ? 2 : 1);
          try {
            evaluate(*op, {.node = node, .inputs = inputs});
          } catch (const Error&) {
          }
          try {
            infer(node, inputs);
          } catch (const Error&) {
          } catch (const UnknownValue&) {
          }
        }
      }
    }
  }
}

TEST(RankZero, ConcatAndSplitOfScalarsNameTheNode) {
  const at::Tensor scalar = at::scalar_tensor(1.0, at::kFloat);
  EXPECT_NE(evaluation_error("Concat", {scalar, scalar}, {{"axis", int64_t{0}}}).find("0 axes"), std::string::npos);
  EXPECT_NE(evaluation_error("Split", {scalar}, {{"axis", int64_t{0}}}).find("0 axes"), std::string::npos);
  const Node concat = make_node("Concat", {scalar, scalar}, {{"axis", int64_t{0}}});
  EXPECT_THROW(infer(concat, {scalar, scalar}), Error);
}

// Every operator on tensors without elements, evaluated and trained: an Error or a result.
TEST(EmptyExtents, OperatorsRefuseOrCompute) {
  for (const OpDef* op : all_ops()) {
    if (op->type.starts_with("pare.")) continue;
    for (const Ints& dims :
         {Ints{0}, Ints{1, 0, 2, 2}, Ints{0, 3, 2, 2}, Ints{2, 3, 0, 2}, Ints{2, 0}, Ints{1, 1, 0}}) {
      for (const size_t count : {op->min_inputs, std::min<size_t>(op->max_inputs, op->min_inputs + 1)}) {
        const int64_t channels = dims.size() > 1 ? dims[1] : dims[0];
        for (const Ints& others : {dims, Ints{channels}, Ints{}}) {
          Tensors inputs(std::max<size_t>(count, 1), at::ones(others));
          inputs[0] = at::ones(dims);
          Attributes attributes;
          if (op->takes("kernel_shape")) attributes["kernel_shape"] = Ints(dims.size() > 2 ? dims.size() - 2 : 1, 1);
          const Node node = make_node(std::string(op->type), inputs, attributes, op->type == "Split" ? 2 : 1);
          for (const bool training : {false, true}) {
            try {
              evaluate(*op, {.node = node, .inputs = inputs, .training = training});
            } catch (const Error&) {
            }
          }
        }
      }
    }
  }
}

// Attributes at the edge of 64 bits: an Error or a result, and no arithmetic beyond it (the sanitizers watch).
TEST(HugeAttributes, AreRefusedOrHarmless) {
  const int64_t huge = INT64_MAX;
  const at::Tensor x = at::ones({2, 3}, at::kByte);
  const at::Tensor scale = at::ones({1, 3});
  const at::Tensor y = run("DequantizeLinear", {x, scale}, {{"axis", integer(0)}, {"block_size", integer(huge)}})[0];
  EXPECT_TRUE(at::equal(y, at::ones({2, 3})));
  for (const char* name : {"pads", "output_shape"})
    EXPECT_NE(evaluation_error("ConvTranspose", {at::ones({1, 1, 2, 2}), at::ones({1, 1, 2, 2})},
                               {{name, Ints(std::string(name) == "pads" ? 4 : 2, -huge)}}),
              "")
        << name;
  const Tensors tiled{at::ones({3}), ints({huge})};
  EXPECT_THROW(infer(make_node("Tile", tiled), tiled), Error);
}

TEST(HugeAttributes, SeedsThatAreNoNumberAreRefused) {
  for (const char* op : {"RandomNormalLike", "RandomUniformLike", "Bernoulli"})
    for (const double seed : {std::nan(""), 1e300, -1e300}) {
      const std::string error = evaluation_error(op, {at::ones({2})}, {{"seed", seed}});
      EXPECT_NE(error.find("has a seed of"), std::string::npos) << op << ": " << error;
    }
}

TEST(HugeAttributes, StridesThatOverflowAreRefused) {
  using Ints = std::vector<int64_t>;
  const Tensors inputs = {at::zeros({1, 1, 6}), at::zeros({1, 1, 6}, at::kLong)};
  for (const int64_t stride : {INT64_MIN, INT64_MAX}) {
    const std::string error =
        evaluation_error("MaxUnpool", inputs, {{"kernel_shape", Ints{2}}, {"strides", Ints{stride}}});
    EXPECT_NE(error.find("kernel_shape, strides or pads of"), std::string::npos) << error;
  }
}

TEST(HugeAttributes, ACommonScaleBeyondCountingIsRefused) {
  const at::Tensor none, sizes = at::tensor({int64_t{900000000000000}, int64_t{1}}, at::kLong);
  const Tensors inputs = {at::zeros({1, 40000}), none, none, sizes};
  const std::string error =
      evaluation_error("Resize", inputs, {{"keep_aspect_ratio_policy", std::string("not_smaller")}});
  EXPECT_NE(error.find("a size would be 3.6e+19"), std::string::npos) << error;
}

// A window far wider than the channels costs no more than one over all of them.
TEST(LocalResponse, WindowsBeyondTheChannels) {
  const at::Tensor x = distinct({1, 3, 2, 2});
  const auto lrn = [&](int64_t size, double alpha) {
    return run("LRN", {x}, {{"size", integer(size)}, {"alpha", Attribute{alpha}}})[0];
  };
  const int64_t wide = int64_t{1} << 40;
  expect_close(lrn(wide + 1, 1e-4 * static_cast<double>(wide + 1)), lrn(7, 7e-4), 1e-9);
}

template <typename T>
void expect_division(at::ScalarType dtype) {
  const T smallest = std::numeric_limits<T>::lowest();
  const T largest = std::numeric_limits<T>::max();
  std::vector<T> numerators;
  std::vector<T> denominators;
  for (const T a : {smallest, static_cast<T>(smallest + 1), static_cast<T>(-7), T{0}, T{7}, largest})
    for (const T b : {smallest, static_cast<T>(-3), static_cast<T>(-1), T{1}, T{3}, largest})
      if (b != 0) numerators.push_back(a), denominators.push_back(b);
  const auto tensor = [&](const std::vector<T>& values) {
    return at::from_blob(const_cast<T*>(values.data()), {static_cast<int64_t>(values.size())}, dtype).clone();
  };
  const at::Tensor a = tensor(numerators);
  const at::Tensor b = tensor(denominators);
  const at::Tensor quotient = run("Div", {a, b})[0];
  const at::Tensor floored = run("Mod", {a, b})[0];
  const at::Tensor truncated = run("Mod", {a, b}, {{"fmod", int64_t{1}}})[0];
  for (size_t i = 0; i < numerators.size(); ++i) {
    // In 128 bits nothing overflows; the quotient wraps round into the type.
    const auto x = static_cast<__int128>(numerators[i]);
    const auto y = static_cast<__int128>(denominators[i]);
    const __int128 rest = x % y;
    const __int128 positive = rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
    EXPECT_EQ(quotient.data_ptr<T>()[i], static_cast<T>(x / y)) << i;
    EXPECT_EQ(truncated.data_ptr<T>()[i], static_cast<T>(rest)) << i;
    EXPECT_EQ(floored.data_ptr<T>()[i], static_cast<T>(positive)) << i;
  }
}

TEST(IntegerDivision, OfTheSmallestByMinusOneWrapsRound) {
  expect_division<int64_t>(at::kLong);
  expect_division<int32_t>(at::kInt);
  expect_division<int16_t>(at::kShort);
  expect_division<int8_t>(at::kChar);
  expect_division<uint8_t>(at::kByte);
}

TEST(IntegerDivision, ByZeroNamesTheNode) {
  for (const auto dtype : {at::kLong, at::kInt, at::kShort, at::kChar, at::kByte})
    for (const char* op : {"Div", "Mod"})
      EXPECT_EQ(error_kind(op, {at::ones({3}, dtype), at::zeros({3}, dtype)}), "failed") << op;
}

// Half precision has few kernels: the result is that of float, rounded.
TEST(HalfPrecision, EveryActivationComputesInFloat) {
  const at::Tensor x = at::linspace(0.05, 0.95, 16);
  for (const auto dtype : {at::kHalf, at::kBFloat16})
    for (const char* op :
         {"Relu",        "LeakyRelu", "Elu",       "Selu",  "Celu",     "Gelu",       "Sigmoid",
          "HardSigmoid", "HardSwish", "Mish",      "Tanh",  "Softplus", "Erf",        "Exp",
          "Log",         "Sqrt",      "Abs",       "Neg",   "Sign",     "Ceil",       "Softsign",
          "Floor",       "Sin",       "Cos",       "Tan",   "Asin",     "Acos",       "Atan",
          "Sinh",        "Cosh",      "Asinh",     "Atanh", "Round",    "Reciprocal", "ThresholdedRelu",
          "Shrink",      "Softmax",   "LogSoftmax"}) {
      const at::Tensor half = x.to(dtype);
      const at::Tensor wanted = run(op, {half.to(at::kFloat)})[0].to(dtype);
      const at::Tensor found = run(op, {half})[0];
      EXPECT_EQ(found.scalar_type(), dtype) << op;
      EXPECT_TRUE(at::allclose(found.to(at::kFloat), wanted.to(at::kFloat), 1e-2, 1e-3)) << op;
    }
}

// The formula of the specification, place by place: nearest even pixel first, padding after.
double nearest_slowly(const at::Tensor& x, const std::vector<double>& place, int64_t n, int64_t c, int padding,
                      bool align) {
  at::Tensor at_place = x[n][c];
  const auto axes = static_cast<int64_t>(place.size());
  for (int64_t a = 0; a < axes; ++a) {
    const double extent = static_cast<double>(x.size(2 + a));
    const double g = place[static_cast<size_t>(axes - 1 - a)];
    const double where = align ? (g + 1) / 2 * (extent - 1) : ((g + 1) * extent - 1) / 2;
    double pixel = std::nearbyint(where);
    if (padding == 0 && (pixel < 0 || pixel > extent - 1)) return 0;
    const double low = align ? 0 : -0.5;
    const double high = align ? extent - 1 : extent - 0.5;
    while (padding == 2 && high > low && (pixel < low || pixel > high))
      pixel = (pixel < low ? 2 * low : 2 * high) - pixel;
    at_place = at_place[static_cast<int64_t>(std::clamp(pixel, 0.0, extent - 1))];
  }
  return at_place.item<double>();
}

TEST(GridSample, NearestTakesTheEvenOfTwoEquallyNear) {
  const char* const paddings[] = {"zeros", "border", "reflection"};
  for (const int64_t rank : {4, 5})
    for (int padding = 0; padding < 3; ++padding)
      for (const bool align : {false, true}) {
        Ints extents(static_cast<size_t>(rank), 5);
        extents[0] = 2, extents[1] = 3;
        const at::Tensor x = distinct(extents);
        // Quarters: with five pixels and aligned corners every second place lies half way.
        const int64_t places = 15;
        Ints grid_dims(static_cast<size_t>(rank), 1);
        grid_dims[0] = 2, grid_dims[1] = places, grid_dims.back() = rank - 2;
        at::Tensor grid = at::zeros(grid_dims, at::kDouble);
        for (int64_t n = 0; n < 2; ++n)
          for (int64_t p = 0; p < places; ++p)
            for (int64_t a = 0; a < rank - 2; ++a) {
              const double step = align ? 0.25 : 0.2;
              grid[n].select(0, p).flatten()[a] = step * static_cast<double>((p + 3 * a + n) % places - 7);
            }
        const at::Tensor y = run("GridSample", {x, grid},
                                 {{"mode", text("nearest")},
                                  {"padding_mode", text(paddings[padding])},
                                  {"align_corners", integer(align ? 1 : 0)}})[0];
        for (int64_t n = 0; n < 2; ++n)
          for (int64_t c = 0; c < 3; ++c)
            for (int64_t p = 0; p < places; ++p) {
              const at::Tensor g = grid[n].select(0, p).flatten().contiguous();
              const std::vector<double> place(g.data_ptr<double>(), g.data_ptr<double>() + g.numel());
              EXPECT_EQ(y[n][c].select(0, p).item<double>(), nearest_slowly(x, place, n, c, padding, align))
                  << rank << " axes, " << paddings[padding] << ", aligned " << align << ", place " << p;
            }
      }
}

// No message of a library: the node, what it was given, and nothing else.
TEST(Evaluate, SpeaksInItsOwnWords) {
  const std::string said = evaluation_error("MatMul", {at::ones({2, 3}), at::ones({4, 5})});
  EXPECT_NE(said.find("float32 [2, 3], float32 [4, 5]"), std::string::npos) << said;
  for (const char* foreign : {"mat1", "Expected", "Exception", "dtype", "TORCH", "RuntimeError"})
    EXPECT_EQ(said.find(foreign), std::string::npos) << said;
}

TEST(Evaluate, NamesTheNodeWhoseResultIsTooLarge) {
  const MemoryScope scope(8 << 20);
  const std::string tile = evaluation_error("Tile", {at::ones({1024}), ints({1 << 20})});
  EXPECT_NE(tile.find("needs 4.3 GB"), std::string::npos) << tile;
  const std::string range =
      evaluation_error("Range", {at::scalar_tensor(0, at::kLong), at::scalar_tensor(int64_t{1} << 40, at::kLong),
                                 at::scalar_tensor(1, at::kLong)});
  EXPECT_NE(range.find("needs"), std::string::npos) << range;
  const std::string filled = evaluation_error("ConstantOfShape", {ints({int64_t{1} << 40, int64_t{1} << 40})});
  EXPECT_NE(filled.find("1099511627776"), std::string::npos) << filled;
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    const at::Tensor sizes = ints({1, 1, 1 << 20, 1 << 20});
    const std::string resize =
        evaluation_error("Resize", {at::ones({1, 1, 2, 2}), {}, {}, sizes}, {{"mode", text(mode)}});
    EXPECT_NE(resize.find("needs 4398.0 GB"), std::string::npos) << mode << ": " << resize;
  }
  for (const char* mode : {"constant", "edge", "reflect", "wrap"}) {
    const std::string pad = evaluation_error("Pad", {at::ones({1024}), ints({0, 1 << 30})}, {{"mode", text(mode)}});
    EXPECT_NE(pad.find("needs"), std::string::npos) << mode << ": " << pad;
  }
}

}  // namespace
}  // namespace pare
