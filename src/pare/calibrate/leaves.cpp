#include "pare/calibrate/leaves.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "pare/calibrate/noise.h"
#include "pare/data/random.h"

namespace pare {

namespace {

double normal(Random& random) {
  return std::sqrt(-2 * std::log(1 - random.uniform())) * std::cos(2 * std::numbers::pi * random.uniform());
}

// Of an image: what its leaves have in common.
struct Palette {
  std::vector<double> mean;  // of each channel
  double contrast = 1, colour = 1, texture = 0;
};

struct Leaf {
  double x = 0, y = 0, along = 1, across = 1, cosine = 1, sine = 0;
  bool round = true;
  std::vector<double> colour;       // of each channel
  double shade_x = 0, shade_y = 0;  // how the colour changes over the leaf
  double texture = 0;
  int64_t texture_x = 0, texture_y = 0;  // where in the noise its texture begins

  // Does it cover the pixel? u and v are the pixel's places along the leaf's own axes, in radii.
  bool covers(double px, double py, double& u, double& v) const {
    const double dx = px - x, dy = py - y;
    u = (dx * cosine + dy * sine) / along;
    v = (dy * cosine - dx * sine) / across;
    return round ? u * u + v * v < 1 : std::abs(u) < 1 && std::abs(v) < 1;
  }
};

Palette palette(Random& random, int64_t channels) {
  Palette own{.mean = std::vector<double>(static_cast<size_t>(channels)),
              .contrast = 0.5 + random.uniform(),
              .colour = 0.6 * random.uniform(),
              .texture = 0.6 * random.uniform() * random.uniform()};
  const double grey = 0.5 * normal(random);
  for (double& mean : own.mean) mean = grey + 0.3 * own.colour * normal(random);
  return own;
}

// Radii r between least and most with density r⁻³.
double radius(Random& random, double least, double most) {
  const double a = 1 / (least * least), b = 1 / (most * most);
  return 1 / std::sqrt(a - random.uniform() * (a - b));
}

Leaf leaf(Random& random, const Palette& palette, int64_t height, int64_t width) {
  const double extent = static_cast<double>(std::max(height, width));
  const double r = radius(random, std::max(1.0, extent / 64), extent / 2),
               angle = 2 * std::numbers::pi * random.uniform();
  const double longer = std::exp(0.5 * normal(random));
  Leaf own{.x = random.uniform() * static_cast<double>(width),
           .y = random.uniform() * static_cast<double>(height),
           .along = r * longer,
           .across = r / longer,
           .cosine = std::cos(angle),
           .sine = std::sin(angle),
           .round = random.coin()};
  const double grey = palette.contrast * normal(random);
  for (const double mean : palette.mean) own.colour.push_back(mean + grey + palette.colour * normal(random));
  own.shade_x = 0.3 * palette.contrast * normal(random);
  own.shade_y = 0.3 * palette.contrast * normal(random);
  own.texture = palette.texture * 2 * random.uniform();
  own.texture_x = random.below(width);
  own.texture_y = random.below(height);
  return own;
}

}  // namespace

at::Tensor leaf_images(int64_t count, int64_t channels, int64_t height, int64_t width, uint64_t seed) {
  at::Tensor images = at::zeros({count, channels, height, width}, at::kFloat);
  const at::Tensor noise = noise_images(1, height, width, {.count = 4, .seed = seed}).contiguous();
  const int64_t pixels = height * width;
  for (int64_t i = 0; i < count; ++i) {
    Random random(mix_seed({seed, 0x1eafu, static_cast<uint64_t>(i)}));
    const Palette common = palette(random, channels);
    const float* texture = noise.data_ptr<float>() + random.below(4) * pixels;
    float* image = images.data_ptr<float>() + i * channels * pixels;
    std::vector<bool> covered(static_cast<size_t>(pixels));
    int64_t open = pixels;
    // From the front to the back: a leaf shows where nothing lies on it.
    for (int64_t fallen = 0; open > pixels / 200 && fallen < 4000; ++fallen) {
      const Leaf own = leaf(random, common, height, width);
      const double reach = std::hypot(own.along, own.across);
      const auto first = [](double at) { return std::max<int64_t>(0, static_cast<int64_t>(at)); };
      const int64_t bottom = std::min<int64_t>(height, static_cast<int64_t>(own.y + reach) + 1);
      const int64_t right = std::min<int64_t>(width, static_cast<int64_t>(own.x + reach) + 1);
      for (int64_t y = first(own.y - reach); y < bottom; ++y)
        for (int64_t x = first(own.x - reach); x < right; ++x) {
          double u = 0, v = 0;
          const auto pixel = static_cast<size_t>(y * width + x);
          if (covered[pixel] || !own.covers(static_cast<double>(x), static_cast<double>(y), u, v)) continue;
          covered[pixel] = true;
          --open;
          const double grain =
              own.texture * texture[(y + own.texture_y) % height * width + (x + own.texture_x) % width];
          for (int64_t c = 0; c < channels; ++c)
            image[c * pixels + y * width + x] =
                static_cast<float>(own.colour[static_cast<size_t>(c)] + own.shade_x * u + own.shade_y * v + grain);
        }
    }
  }
  images = images - images.mean();
  const double deviation = images.std(false).item<double>();
  return deviation > 0 ? images / deviation : images;
}

}  // namespace pare
