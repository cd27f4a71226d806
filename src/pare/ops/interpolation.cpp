#include "pare/ops/interpolation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace pare {

namespace {

// The kernel of cubic convolution (Keys 1981) with parameter a.
double cubic_kernel(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

double linear_kernel(double x) { return std::max(1 - std::abs(x), 0.0); }

int64_t nearest_index(const std::string& mode, double x) {
  if (mode == "floor") return static_cast<int64_t>(std::floor(x));
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(x));
  if (mode == "round_prefer_ceil") return static_cast<int64_t>(std::floor(x + 0.5));
  return static_cast<int64_t>(std::ceil(x - 0.5));
}

// Offsets from floor(x) that the kernel reaches: first … 1 − first.
int64_t first_offset(const InterpolationOptions& options, double stretch) {
  const double radius = options.mode == "cubic" ? 2 : 1;
  return static_cast<int64_t>(std::floor(-radius / stretch)) + 1;
}

void normalize(std::vector<double>& weights) {
  double sum = 0;
  for (const double w : weights) sum += w;
  if (sum == 0) return;
  for (double& w : weights) w /= sum;
}

}  // namespace

double source_coordinate(const InterpolationOptions& options, const ResizedAxis& axis, int64_t i) {
  const auto n = static_cast<double>(axis.input);
  const auto m = static_cast<double>(axis.output);
  const auto x = static_cast<double>(i);
  const std::string& mode = options.coordinates;
  if (mode == "asymmetric") return x / axis.scale;
  if (mode == "align_corners") return axis.output == 1 ? 0 : x * (n - 1) / (m - 1);
  if (mode == "pytorch_half_pixel") return axis.output == 1 ? 0 : (x + 0.5) / axis.scale - 0.5;
  if (mode == "tf_half_pixel_for_nn") return (x + 0.5) / axis.scale;
  if (mode == "tf_crop_and_resize") {
    if (axis.output == 1) return 0.5 * (axis.roi_begin + axis.roi_end) * (n - 1);
    return axis.roi_begin * (n - 1) + x * (axis.roi_end - axis.roi_begin) * (n - 1) / (m - 1);
  }
  const double half_pixel = (x + 0.5) / axis.scale - 0.5;
  if (mode == "half_pixel_symmetric") return n / 2 * (1 - m / (axis.scale * n)) + half_pixel;
  return half_pixel;
}

Taps interpolation_taps(const InterpolationOptions& options, const ResizedAxis& axis) {
  const double stretch = options.antialias ? std::min(axis.scale, 1.0) : 1.0;
  const bool nearest = options.mode == "nearest" || axis.output == 0;
  const int64_t first = nearest ? 0 : first_offset(options, stretch);
  const int64_t count = nearest ? 1 : 2 - 2 * first;
  Taps taps;
  taps.index.assign(static_cast<size_t>(count), {});
  taps.weight.assign(static_cast<size_t>(count), {});
  std::vector<double> weights(static_cast<size_t>(count), 1.0);
  for (int64_t i = 0; i < axis.output; ++i) {
    // Far outside, every place is like the one just outside the kernel's reach.
    const double reach = static_cast<double>(count) + 1;
    const double x = std::clamp(source_coordinate(options, axis, i), -reach, static_cast<double>(axis.input) + reach);
    taps.outside.push_back(options.coordinates == "tf_crop_and_resize" &&
                           (x < 0 || x > static_cast<double>(axis.input - 1)));
    const int64_t base = nearest ? nearest_index(options.nearest, x) : static_cast<int64_t>(std::floor(x));
    for (int64_t k = 0; k < count && !nearest; ++k) {
      const double distance = (static_cast<double>(base + first + k) - x) * stretch;
      weights[static_cast<size_t>(k)] =
          options.mode == "cubic" ? cubic_kernel(distance, options.cubic_a) : linear_kernel(distance);
      const bool inside = base + first + k >= 0 && base + first + k < axis.input;
      if (options.exclude_outside && !inside) weights[static_cast<size_t>(k)] = 0;
    }
    if (options.antialias || options.exclude_outside) normalize(weights);
    for (int64_t k = 0; k < count; ++k) {
      taps.index[static_cast<size_t>(k)].push_back(std::clamp<int64_t>(base + first + k, 0, axis.input - 1));
      taps.weight[static_cast<size_t>(k)].push_back(weights[static_cast<size_t>(k)]);
    }
  }
  return taps;
}

at::Tensor interpolate(const at::Tensor& x, int64_t axis, const Taps& taps) {
  std::vector<int64_t> dims(static_cast<size_t>(x.dim()), 1);
  dims[static_cast<size_t>(axis)] = static_cast<int64_t>(taps.outside.size());
  at::Tensor sum;
  for (size_t k = 0; k < taps.index.size(); ++k) {
    at::Tensor part = x.index_select(axis, at::tensor(taps.index[k], at::kLong));
    if (taps.index.size() == 1) return part;
    part = part * at::tensor(taps.weight[k], x.options().requires_grad(false)).reshape(dims);
    sum = k == 0 ? part : sum + part;
  }
  return sum;
}

}  // namespace pare
