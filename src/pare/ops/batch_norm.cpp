#include "pare/ops/batch_norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>

#include "pare/ops/lanes.h"

namespace pare {

namespace {

// Pixels × channels, where several neighbouring pixels of few channels count as one of more: their channels lie one
// after the other in memory. Sums are taken over blocks of pixels in single precision, and over blocks in double.
struct Pixels {
  int64_t count, channels;
  int64_t joined;  // so many pixels of the image are one

  int64_t per_block() const { return std::clamp<int64_t>(8'192 / channels, 1, 512); }
  int64_t blocks() const { return (count + per_block() - 1) / per_block(); }
};

Pixels pixels_of(const at::Tensor& x) {
  int64_t joined = 1;
  while (joined * x.size(1) < kLanes) joined *= 2;
  const int64_t channels = joined * x.size(1);
  return {x.numel() / channels, channels, joined};
}

// Σ a and Σ a · b of a block, where a = x − shift and b = a, or a = dy and b = x − shift.
struct SumKernel {
  const float* a;
  const float* b;  // null: a itself
  const float* shift;
  int64_t count, channels;
  float* sums;  // 2 × channels

  [[gnu::always_inline]] void run() const {
    over_channels(
        channels, [this](int64_t c) __attribute__((always_inline)) {
          const Float8 s = lanes(shift + c);
          Float8 first = {}, second = {};
          if (b == nullptr)
            for (int64_t i = c; i < count * channels; i += channels) {
              const Float8 v = lanes(a + i) - s;
              first += v;
              second += v * v;
            }
          else
            for (int64_t i = c; i < count * channels; i += channels) {
              const Float8 v = lanes(a + i);
              first += v;
              second += v * (lanes(b + i) - s);
            }
          lanes(sums + c) = first;
          lanes(sums + channels + c) = second;
        });
  }
};

// out = a · factors[0] + b · factors[1] + factors[2], without b where it is null.
struct MapKernel {
  const float* a;
  const float* b;
  const float* factors;  // 3 × channels
  int64_t count, channels;
  float* out;

  [[gnu::always_inline]] void run() const {
    over_channels(
        channels, [this](int64_t c) __attribute__((always_inline)) {
          const Float8 of_a = lanes(factors + c);
          const Float8 of_b = lanes(factors + channels + c);
          const Float8 constant = lanes(factors + 2 * channels + c);
          if (b == nullptr)
            for (int64_t i = c; i < count * channels; i += channels) lanes(out + i) = lanes(a + i) * of_a + constant;
          else
            for (int64_t i = c; i < count * channels; i += channels)
              lanes(out + i) = lanes(a + i) * of_a + (lanes(b + i) * of_b + constant);
        });
  }
};

// body(first pixel, how many, which block)
template <typename Body>
void over_blocks(const Pixels& pixels, const Body& body) {
  at::parallel_for(0, pixels.blocks(), 4, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * pixels.per_block();
      body(first, std::min(pixels.per_block(), pixels.count - first), block);
    }
  });
}

// [2, channels of the image] in double; `shift` has one value for each of them.
at::Tensor sums_of(const Pixels& pixels, const float* a, const float* b, const at::Tensor& shift) {
  const at::Tensor shifts = shift.repeat({pixels.joined});
  const at::Tensor parts = at::empty({pixels.blocks(), 2, pixels.channels}, at::kFloat);
  auto* sums = parts.data_ptr<float>();
  over_blocks(pixels, [&](int64_t first, int64_t count, int64_t block) {
    const int64_t from = first * pixels.channels;
    run_lanes(SumKernel{a + from, b == nullptr ? nullptr : b + from, shifts.data_ptr<float>(), count, pixels.channels,
                        sums + block * 2 * pixels.channels});
  });
  return parts.reshape({pixels.blocks(), 2, pixels.joined, -1})
      .sum(at::IntArrayRef{0, 2}, /*keepdim=*/false, at::kDouble);
}

at::Tensor mapped(const Pixels& pixels, const at::Tensor& a, const at::Tensor& b,
                  const std::array<at::Tensor, 3>& factors) {
  const at::Tensor table = at::stack({factors[0], factors[1], factors[2]}).to(at::kFloat).repeat({1, pixels.joined});
  at::Tensor out = at::empty_like(a);
  over_blocks(pixels, [&](int64_t first, int64_t count, int64_t) {
    const int64_t from = first * pixels.channels;
    run_lanes(MapKernel{a.data_ptr<float>() + from, b.defined() ? b.data_ptr<float>() + from : nullptr,
                        table.data_ptr<float>(), count, pixels.channels, out.data_ptr<float>() + from});
  });
  return out;
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct NormalizeBatch : torch::autograd::Function<NormalizeBatch> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& scale,
                               const at::Tensor& shift, double epsilon) {
    const Pixels pixels = pixels_of(x);
    const auto count = static_cast<double>(pixels.count * pixels.joined);
    // Differences to the first pixel: the sum of squares of values far from 0 would lose their variance.
    const at::Tensor near = x.select(3, 0).select(2, 0).select(0, 0).contiguous();
    const at::Tensor sums = sums_of(pixels, x.data_ptr<float>(), nullptr, near) / count;
    const at::Tensor variance = (sums[1] - sums[0].square()).clamp_min(0);
    const at::Tensor mean = sums[0] + near;
    const at::Tensor inverse_std = at::rsqrt(variance + epsilon);
    const at::Tensor factor = inverse_std * scale;
    const at::Tensor y = mapped(pixels, x, {}, {factor, at::zeros_like(factor), shift - mean * factor});
    const variable_list statistics = {mean.to(at::kFloat), variance.to(at::kFloat), inverse_std.to(at::kFloat)};
    context->save_for_backward({x, scale, statistics[0], statistics[2]});
    context->saved_data["epsilon"] = epsilon;
    context->mark_non_differentiable({statistics[0], statistics[1]});
    return {y, statistics[0], statistics[1]};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &scale = saved[1], &mean = saved[2], &inverse_std = saved[3];
    if (at::GradMode::is_enabled()) {  // to be differentiated again
      const std::array<bool, 3> needed = {context->needs_input_grad(0), context->needs_input_grad(1),
                                          context->needs_input_grad(2)};
      const auto [dx, dscale, dshift] =
          at::native_batch_norm_backward(gradients[0], x, scale, {}, {}, mean, inverse_std, true,
                                         context->saved_data.at("epsilon").toDouble(), needed);
      return {dx, dscale, dshift, at::Tensor()};
    }
    const Pixels pixels = pixels_of(x);
    const auto count = static_cast<double>(pixels.count * pixels.joined);
    const at::Tensor dy = gradients[0].contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor sums = sums_of(pixels, dy.data_ptr<float>(), x.data_ptr<float>(), mean);
    const at::Tensor inverse = inverse_std.to(at::kDouble);
    const at::Tensor factor = inverse * scale;
    const at::Tensor along = sums[1] / count * inverse.square() * factor;  // what dy has in the direction of x
    const at::Tensor dx = context->needs_input_grad(0)
                              ? mapped(pixels, dy, x, {factor, -along, along * mean - sums[0] / count * factor})
                              : at::Tensor();
    return {dx, (sums[1] * inverse).to(at::kFloat), sums[0].to(at::kFloat), at::Tensor()};
  }
};

}  // namespace

bool suits_normalize_batch(const at::Tensor& x) {
  if (x.dim() != 4 || x.scalar_type() != at::kFloat || x.numel() == 0) return false;
  return x.is_contiguous(at::MemoryFormat::ChannelsLast) && x.numel() % pixels_of(x).channels == 0;
}

BatchNormalized normalize_batch(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift, double epsilon) {
  const auto results = NormalizeBatch::apply(x, scale, shift, epsilon);
  return {results[0], results[1], results[2]};
}

}  // namespace pare
