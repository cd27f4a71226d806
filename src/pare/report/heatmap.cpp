#include "pare/report/heatmap.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "pare/error.h"

namespace pare {

namespace {

// sRGB of OKLab (Ottosson 2020).
std::array<double, 3> srgb_of_oklab(double L, double a, double b) {
  const auto cube = [](double v) { return v * v * v; };
  const double l = cube(L + 0.3963377774 * a + 0.2158037573 * b);
  const double m = cube(L - 0.1055613458 * a - 0.0638541728 * b);
  const double s = cube(L - 0.0894841775 * a - 1.2914855480 * b);
  std::array<double, 3> rgb = {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
                               -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
                               -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
  for (double& v : rgb) {
    v = std::clamp(v, 0.0, 1.0);
    v = v <= 0.0031308 ? 12.92 * v : 1.055 * std::pow(v, 1 / 2.4) - 0.055;
  }
  return rgb;
}

// uint8 [256, 3]: lightness rises evenly, the hue turns from violet over red to yellow, colour fades at both ends.
at::Tensor color_table() {
  auto table = at::empty({256, 3}, at::kByte);
  for (int i = 0; i < 256; ++i) {
    const double t = i / 255.0;
    const double lightness = 0.16 + 0.79 * t;
    const double hue = (300 + 165 * t) * std::numbers::pi / 180;
    const double chroma = 0.05 + 0.15 * std::sin(std::numbers::pi * std::pow(t, 0.9));
    const auto rgb = srgb_of_oklab(lightness, chroma * std::cos(hue), chroma * std::sin(hue));
    for (int c = 0; c < 3; ++c) table[i][c] = static_cast<int>(std::lround(rgb[static_cast<size_t>(c)] * 255));
  }
  return table;
}

at::Tensor scaled_to(const at::Tensor& map, int64_t height, int64_t width) {
  return at::upsample_bilinear2d(map.view({1, 1, map.size(0), map.size(1)}), {height, width}, false)
      .view({height, width});
}

}  // namespace

at::Tensor normalized_map(const at::Tensor& map) {
  at::Tensor positive = map.detach().to(at::kFloat).nan_to_num(0, 0, 0).clamp_min(0);
  if (positive.numel() == 0) return positive;
  const at::Tensor sorted = std::get<0>(positive.flatten().sort());
  const auto place = static_cast<int64_t>(std::ceil(0.995 * static_cast<double>(sorted.numel()))) - 1;
  double most = sorted[place].item<double>();
  if (most <= 0) most = sorted[-1].item<double>();
  return most > 0 ? (positive / most).clamp_max(1) : positive;
}

at::Tensor colorize(const at::Tensor& values) {
  static const at::Tensor table = color_table();
  const at::Tensor index = (values.clamp(0, 1) * 255).round().to(at::kLong);
  return table.index_select(0, index.flatten()).view({values.size(0), values.size(1), 3}).permute({2, 0, 1});
}

at::Tensor as_rgb(const at::Tensor& image) {
  if (image.dim() != 3 || (image.size(0) != 1 && image.size(0) != 3) || image.scalar_type() != at::kByte)
    throw Error(ErrorKind::shape, "heat map", "an image of {}, expected uint8 [1 or 3, H, W]",
                fmt::join(image.sizes(), "x"));
  return image.expand({3, image.size(1), image.size(2)});
}

at::Tensor overlay_map(const at::Tensor& image, const at::Tensor& map) {
  const at::Tensor rgb = as_rgb(image).to(at::kFloat);
  const at::Tensor weights = at::tensor({0.299F, 0.587F, 0.114F}).view({3, 1, 1});
  const at::Tensor gray = (rgb * weights).sum(0, /*keepdim=*/true);
  const at::Tensor values = scaled_to(normalized_map(map), image.size(1), image.size(2)).clamp(0, 1);
  const at::Tensor strength = 0.25 + 0.55 * values;
  return (gray * (1 - strength) + colorize(values).to(at::kFloat) * strength).round().clamp(0, 255).to(at::kByte);
}

at::Tensor side_by_side(const std::vector<at::Tensor>& pictures) {
  if (pictures.empty()) throw Error(ErrorKind::shape, "heat map", "no pictures");
  const int64_t side = std::max(pictures[0].size(1), pictures[0].size(2));
  const int64_t times = std::max<int64_t>(1, 224 / side);
  std::vector<at::Tensor> row;
  for (const auto& picture : pictures) {
    if (picture.sizes() != pictures[0].sizes())
      throw Error(ErrorKind::shape, "heat map", "pictures of {} and {}", fmt::join(picture.sizes(), "x"),
                  fmt::join(pictures[0].sizes(), "x"));
    if (!row.empty()) row.push_back(at::full({3, picture.size(1) * times, 8}, 255, at::kByte));
    row.push_back(picture.repeat_interleave(times, 1).repeat_interleave(times, 2));
  }
  return at::cat(row, 2);
}

}  // namespace pare
