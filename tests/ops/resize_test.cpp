#include "ops/node_testing.h"
#include "pare/ops/interpolation.h"

namespace pare {
namespace {

using namespace pare::testing;  // NOLINT: the vocabulary of these tests

at::Tensor resized(const at::Tensor& x, const Reals& scales, Attributes attributes) {
  return run("Resize", {x, at::Tensor(), reals(scales)}, std::move(attributes))[0];
}

TEST(Resize, AtenAndTheGeneralWayAgree) {
  // With a leading axis of one the input is no image to ATen, so that the general way is taken.
  const auto image = distinct({2, 3, 5, 4});
  for (const char* coordinates : {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"})
    for (const char* mode : {"linear", "nearest"})
      for (const Reals& scales : {Reals{1, 1, 2, 3}, Reals{1, 1, 1.7, 0.5}, Reals{1, 1, 3, 1}}) {
        SCOPED_TRACE(std::string(coordinates) + " " + mode);
        if (coordinates == std::string("align_corners") && scales[2] == 1.7) continue;  // refused: not a whole extent
        const Attributes attributes{{"mode", text(mode)}, {"coordinate_transformation_mode", text(coordinates)}};
        Reals deeper = scales;
        deeper.insert(deeper.begin(), 1);
        expect_close(resized(image, scales, attributes), resized(image.unsqueeze(0), deeper, attributes).squeeze(0),
                     1e-5);
      }
}

TEST(Resize, CubicAgreesWithAten) {
  const auto image = distinct({1, 2, 6, 7});
  const auto y = resized(image, {1, 1, 2, 0.5}, {{"mode", text("cubic")}});
  expect_close(y, at::upsample_bicubic2d(image, Ints{12, 3}, false, 2.0, 0.5), 1e-9);
}

// Shrinking without aliasing, as PIL and ATen do it: weights beyond the edge are dropped and the others scaled up.
TEST(Resize, AntialiasAgreesWithAten) {
  const auto image = distinct({1, 2, 12, 9});
  const Tensors operands{image, at::Tensor(), at::Tensor(), ints({1, 2, 5, 3})};
  const Attributes linear{{"mode", text("linear")}, {"antialias", integer(1)}, {"exclude_outside", integer(1)}};
  expect_close(run("Resize", operands, linear)[0], at::_upsample_bilinear2d_aa(image, Ints{5, 3}, false), 1e-6);
  Attributes cubic = linear;
  cubic["mode"] = text("cubic");
  cubic["cubic_coeff_a"] = -0.5;
  expect_close(run("Resize", operands, cubic)[0], at::_upsample_bicubic2d_aa(image, Ints{5, 3}, false), 1e-6);
}

TEST(Resize, SizesKeepTheAspectRatio) {
  const auto image = distinct({1, 1, 4, 8});
  const auto dims = [&](const char* policy) {
    return run("Resize", {image, at::Tensor(), at::Tensor(), ints({6, 6})},
               {{"axes", Ints{-2, 3}}, {"keep_aspect_ratio_policy", text(policy)}, {"mode", text("linear")}})[0]
        .sizes()
        .vec();
  };
  EXPECT_EQ(dims("stretch"), Ints({1, 1, 6, 6}));
  EXPECT_EQ(dims("not_larger"), Ints({1, 1, 3, 6}));
  EXPECT_EQ(dims("not_smaller"), Ints({1, 1, 6, 12}));
}

TEST(Resize, SymmetricHalfPixelsStayCentred) {
  // 10 · 0.25 = 2.5 places of which two are made: the coordinates are mirror images of each other.
  const InterpolationOptions options{.mode = "linear", .coordinates = "half_pixel_symmetric"};
  const ResizedAxis axis{.input = 10, .output = 2, .scale = 0.25};
  EXPECT_NEAR(source_coordinate(options, axis, 0) + source_coordinate(options, axis, 1), 9, 1e-12);
}

TEST(Resize, KeepsTypes) {
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kByte, at::kChar, at::kInt})
    for (const char* mode : {"nearest", "linear", "cubic"}) {
      const auto x = at::arange(1, 17, at::kLong).to(dtype).reshape({1, 1, 4, 4});
      EXPECT_EQ(resized(x, {1, 1, 2, 2}, {{"mode", text(mode)}}).scalar_type(), dtype);
    }
}

TEST(Resize, GradientsFlow) {
  const auto image = distinct({1, 1, 3, 4});
  for (const char* mode : {"nearest", "linear", "cubic"})
    for (const char* coordinates : {"half_pixel", "asymmetric", "tf_crop_and_resize"})
      expect_gradient("Resize", {image, reals({0, 0, 0.2, 0, 1, 1, 0.8, 1}), reals({1, 1, 1.5, 2})}, 0,
                      {{"mode", text(mode)}, {"coordinate_transformation_mode", text(coordinates)}});
}

TEST(Resize, RefusesWhatMakesNoSense) {
  const auto image = at::ones({1, 1, 3, 4});
  const at::Tensor no;
  EXPECT_EQ(error_kind("Resize", {image}), "format");
  EXPECT_EQ(error_kind("Resize", {image, no, reals({1, 1, 2})}), "format");
  EXPECT_EQ(error_kind("Resize", {image, no, reals({1, 1, 2, -2})}), "format");
  EXPECT_EQ(error_kind("Resize", {image, no, reals({1, 1, 2, NAN})}), "format");
  EXPECT_EQ(error_kind("Resize", {image, no, no, ints({1, 1, -1, 2})}), "format");
  EXPECT_EQ(error_kind("Resize", {image, no, reals({1, 1, 2, 2})}, {{"mode", text("sharp")}}), "format");
  EXPECT_EQ(error_kind("Resize", {image, no, reals({2, 2})}, {{"axes", Ints{2, 4}}}), "format");
  EXPECT_EQ(error_kind("Resize", {at::ones({1, 1, 0, 4}), no, no, ints({1, 1, 2, 2})}), "shape");
  EXPECT_EQ(run("Resize", {image, no, reals({1, 1, 0.1, 1})}, {{"mode", text("cubic")}})[0].numel(), 0);
}

TEST(ResizeLabels, ChannelsPassAndTheSizesFollow) {
  LabelRun resize("Resize", {at::ones({1, 3, 4, 4}), at::Tensor(), at::Tensor(), ints({1, 3, 8, 8})});
  resize.label(0, 1);
  resize.know(3);
  resize.run();
  EXPECT_TRUE(at::equal(resize.out_ids[0], resize.ids[0]));
  EXPECT_FALSE(resize.sets.frozen(0));
  const auto keep = at::tensor(Ints{1, 0, 1}, at::kLong).to(at::kBool).reshape({1, 3, 1, 1});
  const Graph graph = rewritten(resize, keep, keep);
  EXPECT_TRUE(at::equal(graph.tensor(graph.nodes[0].inputs[3]), ints({1, 2, 8, 8})));
}

TEST(ResizeLabels, ScaledChannelsStay) {
  LabelRun resize("Resize", {at::ones({1, 3, 4, 4}), at::Tensor(), reals({1, 2, 1, 1})});
  resize.label(0, 1);
  resize.know(2);
  resize.run();
  EXPECT_TRUE(resize.sets.frozen(0));
}

TEST(GridSample, ReadsVolumesToo) {
  const auto volume = distinct({1, 2, 3, 3, 3});
  const auto grid = at::zeros({1, 2, 2, 2, 3}, at::kDouble);  // all at the centre
  expect_close(run("GridSample", {volume, grid})[0][0][1][0][0][0], volume[0][1][1][1][1]);
  EXPECT_EQ(error_kind("GridSample", {volume, at::zeros({1, 2, 2, 3}, at::kDouble)}), "shape");
  EXPECT_EQ(error_kind("GridSample", {distinct({1, 2, 3, 3}), at::zeros({2, 2, 2, 2}, at::kDouble)}), "shape");
  EXPECT_EQ(error_kind("GridSample", {distinct({1, 2, 3, 3}), at::zeros({1, 2, 2, 2}, at::kDouble)},
                       {{"mode", text("sinc")}}),
            "format");
  const auto places = (distinct({1, 2, 2, 2}) * 0.9).contiguous();
  expect_gradient("GridSample", {distinct({1, 2, 4, 4}), places}, 0);
  expect_gradient("GridSample", {distinct({1, 2, 4, 4}), places}, 1);
}

}  // namespace
}  // namespace pare
