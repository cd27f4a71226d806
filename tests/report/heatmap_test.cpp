#include "pare/report/heatmap.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "pare/error.h"

namespace pare {
namespace {

// CIE lightness of an sRGB colour.
double lightness(const at::Tensor& rgb) {
  double y = 0;
  const double weights[] = {0.2126, 0.7152, 0.0722};
  for (int c = 0; c < 3; ++c) {
    const double v = rgb[c].item<double>() / 255;
    y += weights[c] * (v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4));
  }
  return y > 0.008856 ? 116 * std::cbrt(y) - 16 : 903.3 * y;
}

TEST(HeatMap, LightnessRisesEvenly) {
  const auto colors = colorize(at::linspace(0, 1, 33).view({1, 33}));
  for (int64_t i = 1; i < 33; ++i) {
    const double step = lightness(colors.select(2, i).squeeze(1)) - lightness(colors.select(2, i - 1).squeeze(1));
    EXPECT_GT(step, 1.0) << i;
    EXPECT_LT(step, 5.0) << i;
  }
}

TEST(HeatMap, NormalisesThePositivePart) {
  const auto map = at::tensor({-2.0, 0.0, 1.0, 4.0}).view({2, 2});
  EXPECT_TRUE(at::equal(normalized_map(map), at::tensor({0.0F, 0.0F, 0.25F, 1.0F}).view({2, 2})));
  auto peaked = at::ones({40, 40});
  peaked.slice(0, 0, 1).slice(1, 0, 8).fill_(1000);  // half a per cent of the pixels
  EXPECT_TRUE(at::equal(normalized_map(peaked), at::ones({40, 40})));
  auto lone = at::zeros({40, 40});
  lone[3][4] = 5;
  EXPECT_EQ(normalized_map(lone)[3][4].item<float>(), 1);
  EXPECT_TRUE(at::equal(normalized_map(at::zeros({2, 2})), at::zeros({2, 2})));
  EXPECT_TRUE(at::equal(normalized_map(at::full({2, 2}, std::nan(""))), at::zeros({2, 2})));
}

TEST(HeatMap, ColoursWhereTheRelevanceIs) {
  auto map = at::zeros({7, 7});
  map[1][5] = 3;
  const auto overlay = overlay_map(at::full({1, 28, 28}, 100, at::kByte), map);
  EXPECT_EQ(overlay.sizes(), at::IntArrayRef({3, 28, 28}));
  const auto brightness = overlay.to(at::kFloat).sum(0);
  EXPECT_EQ(brightness.flatten().argmax().item<int64_t>() / 28 / 4, 1);
  EXPECT_EQ(brightness.flatten().argmax().item<int64_t>() % 28 / 4, 5);
  EXPECT_NO_THROW(overlay_map(at::zeros({3, 9, 9}, at::kByte), at::zeros({3, 3})));
  EXPECT_THROW(overlay_map(at::zeros({4, 9, 9}, at::kByte), map), Error);
}

TEST(HeatMap, PutsPicturesSideBySide) {
  const auto picture = at::zeros({3, 56, 56}, at::kByte);
  EXPECT_EQ(side_by_side({picture, picture}).sizes(), at::IntArrayRef({3, 224, 2 * 224 + 8}));
  EXPECT_THROW(side_by_side({picture, at::zeros({3, 56, 57}, at::kByte)}), Error);
  EXPECT_THROW(side_by_side({}), Error);
}

}  // namespace
}  // namespace pare
