#include "pare/calibrate/noise.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "pare/calibrate/leaves.h"
#include "pare/error.h"
#include "pare/exec/index_range.h"
#include "pare/run.h"

namespace pare {

namespace {

// Row u is the cosine of frequency u/2 periods over the extent: an orthonormal basis.
at::Tensor cosine_basis(int64_t extent) {
  const at::Tensor u = at::arange(extent, at::kDouble).unsqueeze(1);
  const at::Tensor x = at::arange(extent, at::kDouble).unsqueeze(0) + 0.5;
  at::Tensor basis = at::cos(u * x * (std::numbers::pi / static_cast<double>(extent)));
  return basis / basis.norm(2, {1}, true);
}

at::Tensor pink(const at::Tensor& white, double exponent) {
  const int64_t height = white.size(-2);
  const int64_t width = white.size(-1);
  const at::Tensor fy = at::arange(height, at::kDouble) / static_cast<double>(height);
  const at::Tensor fx = at::arange(width, at::kDouble) / static_cast<double>(width);
  at::Tensor frequency = at::sqrt(fy.square().unsqueeze(1) + fx.square().unsqueeze(0));
  frequency.select(0, 0).select(0, 0).fill_(1.0 / static_cast<double>(std::max(height, width)));
  const at::Tensor amplitude = frequency.pow(-exponent).to(at::kFloat);
  const at::Tensor rows = cosine_basis(height).to(at::kFloat);
  const at::Tensor columns = cosine_basis(width).to(at::kFloat);
  return at::matmul(at::matmul(rows.t(), white * amplitude), columns);
}

at::Tensor smooth(const at::Tensor& white, int64_t window) {
  const int64_t k = std::max<int64_t>(1, std::min({window, white.size(-2), white.size(-1)}));
  const at::Tensor padded = at::constant_pad_nd(white, {k / 2, k / 2, k / 2, k / 2}, 0);
  return at::avg_pool2d(padded, {k, k}, {1, 1}).narrow(-2, 0, white.size(-2)).narrow(-1, 0, white.size(-1));
}

}  // namespace

at::Tensor noise_images(int64_t channels, int64_t height, int64_t width, const NoiseOptions& options) {
  if (options.kind == NoiseKind::leaves) return leaf_images(options.count, channels, height, width, options.seed);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(options.seed);
  const auto draw = [&](int64_t planes) {
    return at::randn({options.count, planes, height, width}, generator, at::TensorOptions(at::kFloat));
  };
  at::Tensor images = draw(channels);
  if (channels > 1) images = images * std::sqrt(1 - options.shared) + draw(1) * std::sqrt(options.shared);
  if (options.kind == NoiseKind::pink) images = pink(images, options.exponent);
  if (options.kind == NoiseKind::smooth) images = smooth(images, options.window);
  const double deviation = images.std(false).item<double>();
  return deviation > 0 ? images / deviation : images;
}

namespace {

// A mask or a length is no noise: what such an input may hold only data can tell.
void check_integers_known(const Graph& graph) {
  for (const ValueInfo& input : graph.inputs)
    if (!at::isFloatingType(input.dtype) && input.dtype != at::kBool && !index_limit(graph, input.name))
      throw Error(ErrorKind::usage, input.name,
                  "the input is of integers, and no table that they index says which: noise cannot stand in for data");
}

}  // namespace

std::vector<at::Tensor> noise_inputs(const Graph& graph, const NoiseOptions& options) {
  check_integers_known(graph);
  Graph open = graph;  // as many as asked for, also where the batch is fixed
  for (auto& input : open.inputs)
    if (input.dims && !input.dims->empty()) input.dims->front() = {};
  std::vector<at::Tensor> inputs = random_inputs(open, options.count, options.seed);
  for (size_t i = 0; i < inputs.size(); ++i) {
    at::Tensor& input = inputs[i];
    if (const auto limit = index_limit(graph, graph.inputs[i].name); limit && !input.is_floating_point()) {
      auto generator = at::make_generator<at::CPUGeneratorImpl>(options.seed + i);
      const at::Tensor drawn =
          at::randint(0, std::max<int64_t>(1, *limit), input.sizes(), generator, at::TensorOptions(at::kLong));
      input = drawn.to(input.scalar_type());
    }
    if (input.dim() != 4 || !input.is_floating_point()) continue;
    NoiseOptions own = options;
    own.count = input.size(0);
    own.seed = options.seed + i;
    input = noise_images(input.size(1), input.size(2), input.size(3), own).to(input.scalar_type());
  }
  return inputs;
}

}  // namespace pare
