// Resampling as PIL does it (Pillow's Resample.c): two one-dimensional passes with a triangle filter whose support
// grows with the scale, coefficients in fixed point, each pass rounded to bytes.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "pare/data/image.h"
#include "pare/error.h"

namespace pare {

namespace {

constexpr int resize_bits = 32 - 8 - 2;

// Output place i is the sum of weights[i * most + k] * input[first[i] + k] for k < count[i].
struct ResizeTaps {
  int64_t most = 0;
  std::vector<int64_t> first, count;
  std::vector<int32_t> weights;
};

ResizeTaps resize_taps(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double width = std::max(scale, 1.0);  // half the width of the triangle
  ResizeTaps taps;
  taps.most = static_cast<int64_t>(std::ceil(width)) * 2 + 1;
  taps.weights.assign(static_cast<size_t>(taps.most * to), 0);
  std::vector<double> weights;
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(std::floor(center - width + 0.5)));
    const auto last = std::min<int64_t>(from, static_cast<int64_t>(std::floor(center + width + 0.5)));
    weights.clear();
    double sum = 0;
    for (int64_t k = first; k < last; ++k) {
      const double distance = std::abs((static_cast<double>(k) - center + 0.5) * (1.0 / width));
      weights.push_back(distance < 1 ? 1 - distance : 0);
      sum += weights.back();
    }
    for (size_t k = 0; k < weights.size(); ++k)
      taps.weights[static_cast<size_t>(i * taps.most) + k] =
          static_cast<int32_t>(std::floor(0.5 + weights[k] / sum * (1 << resize_bits)));
    taps.first.push_back(first);
    taps.count.push_back(last - first);
  }
  return taps;
}

uint8_t resize_byte(int64_t sum) { return static_cast<uint8_t>(std::clamp<int64_t>(sum >> resize_bits, 0, 255)); }

void resize_rows(const uint8_t* in, int64_t rows, int64_t from, int64_t to, const ResizeTaps& taps, uint8_t* out) {
  for (int64_t y = 0; y < rows; ++y, in += from, out += to)
    for (int64_t i = 0; i < to; ++i) {
      const int32_t* weight = taps.weights.data() + i * taps.most;
      const uint8_t* pixel = in + taps.first[static_cast<size_t>(i)];
      int64_t sum = 1 << (resize_bits - 1);
      for (int64_t k = 0; k < taps.count[static_cast<size_t>(i)]; ++k) sum += weight[k] * pixel[k];
      out[i] = resize_byte(sum);
    }
}

void resize_columns(const uint8_t* in, int64_t columns, int64_t to, const ResizeTaps& taps, uint8_t* out) {
  std::vector<int64_t> sums(static_cast<size_t>(columns));
  for (int64_t i = 0; i < to; ++i, out += columns) {
    const int32_t* weight = taps.weights.data() + i * taps.most;
    const uint8_t* row = in + taps.first[static_cast<size_t>(i)] * columns;
    std::fill(sums.begin(), sums.end(), 1 << (resize_bits - 1));
    for (int64_t k = 0; k < taps.count[static_cast<size_t>(i)]; ++k, row += columns)
      for (int64_t x = 0; x < columns; ++x) sums[static_cast<size_t>(x)] += weight[k] * row[x];
    for (int64_t x = 0; x < columns; ++x) out[x] = resize_byte(sums[static_cast<size_t>(x)]);
  }
}

}  // namespace

at::Tensor resize_bilinear(const at::Tensor& image, int64_t height, int64_t width) {
  if (image.dim() != 3 || image.scalar_type() != at::kByte || image.numel() == 0 || height < 1 || width < 1)
    throw Error(ErrorKind::shape, "resize_bilinear", "cannot resize {} to {} x {}, expected a uint8 image [C, H, W]",
                fmt::join(image.sizes(), "x"), height, width);
  const int64_t channels = image.size(0), from_height = image.size(1), from_width = image.size(2);
  auto in = image.contiguous();
  if (width != from_width) {
    auto out = at::empty({channels, from_height, width}, at::kByte);
    resize_rows(in.data_ptr<uint8_t>(), channels * from_height, from_width, width, resize_taps(from_width, width),
                out.data_ptr<uint8_t>());
    in = out;
  }
  if (height == from_height) return in;
  auto out = at::empty({channels, height, width}, at::kByte);
  const auto taps = resize_taps(from_height, height);
  for (int64_t c = 0; c < channels; ++c)
    resize_columns(in.data_ptr<uint8_t>() + c * from_height * width, width, height, taps,
                   out.data_ptr<uint8_t>() + c * height * width);
  return out;
}

}  // namespace pare
