#include "experiments/pixel_removal.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>

#include "pare/data/random.h"

namespace pare {

namespace {

constexpr int64_t kFilledAtOnce = 64;

at::Tensor resized(const at::Tensor& images, const at::Tensor& like) {
  return at::upsample_bilinear2d(images, {like.size(2), like.size(3)}, /*align_corners=*/false);
}

// float32 [channels, 1, 1]: how far pixels are from the mean of the nine around them, as if that were noise.
at::Tensor pixel_noise(const Dataset& data) {
  at::Tensor squares = at::zeros({data.channels()}, at::kDouble);
  for (int64_t n = 0; n < data.size(); ++n) {
    const at::Tensor image = data.images[n].to(at::kFloat).unsqueeze(0);
    const at::Tensor around =
        at::avg_pool2d(image, {3, 3}, {1, 1}, {1, 1}, /*ceil_mode=*/false, /*count_include_pad=*/false);
    squares += (image - around).square().mean({0, 2, 3}).to(at::kDouble);
  }
  constexpr double kLeft = 8.0 / 9.0;  // of white noise's variance, once the mean of nine is taken off
  return (squares / static_cast<double>(data.size()) / kLeft).sqrt().to(at::kFloat).view({-1, 1, 1});
}

}  // namespace

at::Tensor mean_color(const Dataset& data) {
  at::Tensor sum = at::zeros({data.channels()}, at::kDouble);
  for (int64_t n = 0; n < data.size(); ++n) sum += data.images[n].to(at::kDouble).mean({1, 2});
  return (sum / data.size()).round().to(at::kByte);
}

at::Tensor filled_from_neighbours(const at::Tensor& images, const at::Tensor& kept) {
  const at::Tensor weight = kept.unsqueeze(1).to(at::kFloat);
  if (images.size(2) == 1 && images.size(3) == 1) return images * weight;
  const auto halved = [](const at::Tensor& t) {
    return at::avg_pool2d(t, {std::min<int64_t>(2, t.size(2)), std::min<int64_t>(2, t.size(3))}, {}, {0, 0},
                          /*ceil_mode=*/true, /*count_include_pad=*/false);
  };
  const at::Tensor share = halved(weight);
  const at::Tensor coarse = halved(images * weight) / share.clamp_min(1e-6);
  const at::Tensor below = filled_from_neighbours(coarse, share.squeeze(1).gt(0));
  return at::where(kept.unsqueeze(1), images, resized(below, images));
}

PixelFill::PixelFill(const std::string& kind, const Dataset& data) : color_(mean_color(data)) {
  if (kind == "neighbours") noise_ = pixel_noise(data);
}

void PixelFill::fill_holes(at::Tensor images, const at::Tensor& kept, int64_t first) const {
  at::Tensor filled = filled_from_neighbours(images.to(at::kFloat), kept);
  auto generator = at::detail::createCPUGenerator(mix_seed({static_cast<uint64_t>(first), 13}));
  filled += at::randn(filled.sizes(), generator, filled.options()) * noise_;
  images.copy_(at::where(kept.unsqueeze(1), images, filled.round().clamp(0, 255).to(at::kByte)));
}

Dataset PixelFill::without(const Dataset& data, const at::Tensor& order, double part) const {
  const auto removed = static_cast<int64_t>(part * static_cast<double>(order.size(1)));
  Dataset result = data;
  result.images = data.images.clone();
  result.files.clear();  // they hold the pixels still
  for (int64_t begin = 0; begin < data.size(); begin += kFilledAtOnce) {
    const int64_t end = std::min(begin + kFilledAtOnce, data.size());
    at::Tensor images = result.images.slice(0, begin, end);
    const at::Tensor places = order.slice(0, begin, end).narrow(1, 0, removed).to(at::kLong);
    const at::Tensor kept = at::ones({end - begin, order.size(1)}, at::kBool)
                                .scatter_(1, places, false)
                                .view({end - begin, data.height(), data.width()});
    if (noise_.defined())
      fill_holes(images, kept, begin);
    else
      images.copy_(at::where(kept.unsqueeze(1), images, color_.view({1, -1, 1, 1})));
  }
  return result;
}

}  // namespace pare
