#include "pare/calibrate/stretch.h"

#include <ATen/ATen.h>

#include "pare/calibrate/noise.h"
#include "pare/data/random.h"

namespace pare {

namespace {

at::Tensor moved(const at::Tensor& image, int64_t shift, Random& random) {
  const int64_t down = random.below(2 * shift + 1) - shift;
  const int64_t right = random.below(2 * shift + 1) - shift;
  return image.roll({down, right}, {1, 2});
}

}  // namespace

std::vector<at::Tensor> stretch_samples(const std::vector<at::Tensor>& samples, const StretchOptions& options) {
  const int64_t given = samples.empty() ? 0 : samples.front().size(0);
  if (given == 0 || given >= options.count) return samples;
  for (const at::Tensor& sample : samples)
    if (!sample.is_floating_point()) return samples;
  std::vector<at::Tensor> result;
  for (const at::Tensor& sample : samples) {
    Random random(mix_seed({options.seed, 0x57e7u}));  // the same pairs for every input
    const bool images = sample.dim() == 4;
    std::vector<at::Tensor> all = {sample};
    std::vector<at::Tensor> made;
    for (int64_t k = given; k < options.count; ++k) {
      at::Tensor a = sample[random.below(given)];
      at::Tensor b = sample[random.below(given)];
      const double part = random.uniform();
      if (images && options.shift > 0) {
        a = moved(a, options.shift, random);
        b = moved(b, options.shift, random);
      }
      made.push_back(part * a + (1 - part) * b);
    }
    at::Tensor more = at::stack(made);
    if (images && options.noise > 0) {
      const at::Tensor noise = noise_images(more.size(1), more.size(2), more.size(3),
                                            {.kind = NoiseKind::smooth, .count = more.size(0), .seed = options.seed});
      more = more + (options.noise * sample.std().item<double>()) * noise.to(more.scalar_type());
    }
    all.push_back(more);
    result.push_back(at::cat(all));
  }
  return result;
}

}  // namespace pare
