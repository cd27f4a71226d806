#include <limits>

#include "ops/node_testing.h"

namespace pare {
namespace {

using namespace pare::testing;  // NOLINT: the vocabulary of these tests

constexpr double kLowest = -std::numeric_limits<double>::infinity();

// The definition, slowly: every window of a [1, 1, H, W] input, one cell at a time.
struct Slow {
  Ints kernel, stride, pads, dilation;  // pads: top, left, bottom, right
  Ints out;
  bool include_pad = false;

  at::Tensor pool(const at::Tensor& x, bool maximum) const {
    at::Tensor y = at::zeros({1, 1, out[0], out[1]}, at::kDouble);
    const int64_t H = x.size(2), W = x.size(3);
    for (int64_t i = 0; i < out[0]; ++i)
      for (int64_t j = 0; j < out[1]; ++j) {
        double best = kLowest, sum = 0, count = 0;
        for (int64_t a = 0; a < kernel[0]; ++a)
          for (int64_t b = 0; b < kernel[1]; ++b) {
            const int64_t r = i * stride[0] - pads[0] + a * dilation[0], c = j * stride[1] - pads[1] + b * dilation[1];
            const bool inside = r >= 0 && r < H && c >= 0 && c < W;
            const bool padding = !inside && r < H + pads[2] && c < W + pads[3];
            if (inside) best = std::max(best, x[0][0][r][c].item<double>()), sum += x[0][0][r][c].item<double>();
            count += inside || (padding && include_pad);
          }
        y[0][0][i][j] = maximum ? best : sum / std::max(count, 1.0);  // a window of padding alone has the mean zero
      }
    return y;
  }
};

TEST(Pooling, MatchesTheDefinitionForEveryPadding) {
  const auto x = distinct({1, 1, 7, 6});
  const Ints pad_lists[] = {{0, 0, 0, 0}, {1, 1, 1, 1}, {1, 0, 0, 2}, {2, 2, 2, 2}, {0, 1, 2, 0}};
  for (const auto& pads : pad_lists)
    for (const int64_t dilation : {1, 2})
      for (const int64_t ceil : {0, 1})
        for (const int64_t include : {0, 1}) {
          const Ints kernel{3, 2}, stride{2, 3}, dilations{dilation, dilation};
          const Attributes attributes{{"kernel_shape", kernel},
                                      {"strides", stride},
                                      {"pads", pads},
                                      {"dilations", dilations},
                                      {"ceil_mode", integer(ceil)}};
          auto average = attributes;
          average["count_include_pad"] = integer(include);
          const auto y = run("MaxPool", {x}, attributes)[0];
          const Slow slow{kernel, stride, pads, dilations, {y.size(2), y.size(3)}, include != 0};
          SCOPED_TRACE(to_string(pads) + " dilation " + std::to_string(dilation) + " ceil " + std::to_string(ceil));
          expect_close(y, slow.pool(x, true));
          expect_close(run("AveragePool", {x}, average)[0], slow.pool(x, false));
        }
}

TEST(Pooling, CeilModeTakesNoWindowThatStartsInThePadding) {
  // 4 entries, window 1, stride 3, one entry of padding at the end: a third window would start beyond the input.
  const Attributes attributes{
      {"kernel_shape", Ints{1}}, {"strides", Ints{3}}, {"pads", Ints{0, 2}}, {"ceil_mode", integer(1)}};
  EXPECT_EQ(run("MaxPool", {distinct({1, 1, 4})}, attributes)[0].size(2), 2);
}

TEST(Pooling, TakesOneToThreeAxesAndAllTypes) {
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    const auto line = distinct({2, 3, 8}).to(dtype);
    const auto volume = distinct({2, 3, 4, 4, 4}).to(dtype);
    EXPECT_EQ(run("MaxPool", {line}, {{"kernel_shape", Ints{3}}})[0].sizes(), Ints({2, 3, 6}));
    EXPECT_EQ(run("AveragePool", {line}, {{"kernel_shape", Ints{3}}})[0].scalar_type(), dtype);
    EXPECT_EQ(run("MaxPool", {volume}, {{"kernel_shape", Ints{2, 2, 2}}, {"pads", Ints{0, 0, 0, 1, 0, 0}}})[0].size(2),
              4);
    EXPECT_EQ(run("AveragePool", {volume}, {{"kernel_shape", Ints{2, 2, 2}}})[0].size(4), 3);
    EXPECT_EQ(run("LpPool", {line}, {{"kernel_shape", Ints{3}}})[0].scalar_type(), dtype);
    for (const char* op : {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"})
      EXPECT_EQ(run(op, {volume})[0].sizes(), Ints({2, 3, 1, 1, 1}));
  }
  const auto bytes = at::tensor(Ints{-7, 3, 100, -128}, at::kLong).to(at::kChar).reshape({1, 1, 4});
  const auto y = run("MaxPool", {bytes}, {{"kernel_shape", Ints{2}}, {"pads", Ints{1, 0}}})[0];
  EXPECT_TRUE(at::equal(y.flatten(), at::tensor(Ints{-7, 3, 100, 100}, at::kLong).to(at::kChar)));
}

TEST(Pooling, IndicesPointIntoTheUnpaddedInput) {
  const auto x = distinct({2, 3, 5, 4});
  for (const Ints& pads : {Ints{1, 1, 1, 1}, Ints{1, 0, 0, 1}}) {
    const auto results = run("MaxPool", {x}, {{"kernel_shape", Ints{2, 2}}, {"pads", pads}}, 2);
    expect_close(x.flatten().index_select(0, results[1].flatten()), results[0].flatten());
    const auto by_columns =
        run("MaxPool", {x}, {{"kernel_shape", Ints{2, 2}}, {"pads", pads}, {"storage_order", integer(1)}}, 2);
    expect_close(x.transpose(2, 3).flatten().index_select(0, by_columns[1].flatten()), by_columns[0].flatten());
  }
}

TEST(Pooling, LpPoolIsTheNorm) {
  const auto x = reals({3, -4, 0, 12}, at::kDouble).reshape({1, 1, 4});
  expect_close(run("LpPool", {x}, {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}})[0].flatten(), reals({5, 12}));
  expect_close(run("LpPool", {x}, {{"kernel_shape", Ints{2}}, {"p", integer(1)}})[0].flatten(), reals({7, 4, 12}));
  expect_close(run("GlobalLpPool", {x})[0].flatten(), reals({13}));
}

TEST(Pooling, GradientsFlow) {
  const auto x = distinct({1, 2, 5, 5});
  const Attributes uneven{{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{0, 1, 1, 0}}};
  for (const char* op : {"MaxPool", "AveragePool", "LpPool"}) expect_gradient(op, {x}, 0, uneven);
  for (const char* op : {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"}) expect_gradient(op, {x}, 0);
}

TEST(Pooling, RefusesWindowsThatMakeNoSense) {
  const auto x = distinct({1, 1, 4, 4});
  for (const char* op : {"MaxPool", "AveragePool", "LpPool"}) {
    EXPECT_EQ(error_kind(op, {x}), "format");
    EXPECT_EQ(error_kind(op, {x}, {{"kernel_shape", Ints{5, 1}}}), "shape");
    EXPECT_EQ(error_kind(op, {x}, {{"kernel_shape", Ints{0, 1}}}), "format");
    EXPECT_EQ(error_kind(op, {x}, {{"kernel_shape", Ints{2}}}), "format");
    EXPECT_EQ(error_kind(op, {x}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{0, 1}}}), "format");
    EXPECT_EQ(error_kind(op, {x}, {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{0, -1, 0, 0}}}), "format");
    EXPECT_EQ(error_kind(op, {x}, {{"kernel_shape", Ints{2, 2}}, {"dilations", Ints{4, 1}}}), "shape");
    EXPECT_EQ(error_kind(op, {x}, {{"kernel_shape", Ints{2, 2}}, {"auto_pad", text("SOME")}}), "format");
    EXPECT_EQ(error_kind(op, {at::ones({3, 3})}, {{"kernel_shape", Ints{2}}}), "shape");
    EXPECT_EQ(error_kind(op, {at::ones({1, 1, 0})}, {{"kernel_shape", Ints{1}}, {"pads", Ints{1, 1}}}), "shape");
  }
  EXPECT_EQ(error_kind("GlobalMaxPool", {at::ones({1, 2, 0})}), "shape");
  EXPECT_EQ(
      error_kind("MaxUnpool", {at::ones({1, 1, 2}), at::full({1, 1, 2}, 9, at::kLong)}, {{"kernel_shape", Ints{2}}}),
      "format");
}

TEST(Pooling, ChannelsPass) {
  LabelRun pool("MaxPool", {at::ones({2, 3, 4, 4})}, {{"kernel_shape", Ints{2, 2}}});
  pool.label(0, 1);
  pool.run();
  EXPECT_TRUE(at::equal(pool.out_ids[0], pool.ids[0]));
  EXPECT_FALSE(pool.sets.frozen(0));

  LabelRun rows("GlobalAveragePool", {at::ones({2, 1, 3, 4})});  // channels along a spatial axis are pooled into one
  rows.label(0, 2);
  rows.run();
  EXPECT_EQ(rows.sets.find(2), rows.sets.find(0));

  LabelRun positions("MaxPool", {at::ones({2, 3, 4, 4})}, {{"kernel_shape", Ints{2, 2}}}, 2);
  positions.label(0, 1);
  positions.run();
  EXPECT_TRUE(positions.sets.frozen(0));
}

}  // namespace
}  // namespace pare
