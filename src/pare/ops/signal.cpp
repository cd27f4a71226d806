// Signals: Fourier transforms (DFT, STFT), windows (Hann, Hamming, Blackman) and the weights of mel bands. Complex
// numbers lie in a last axis of two entries.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "pare/ops/common.h"
#include "pare/ops/dtype.h"
#include "pare/ops/families.h"

namespace pare {
namespace {
namespace signal {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr int64_t kLongest = int64_t{1} << 40;

int64_t one_number(const Node& node, const Tensor& value, std::string_view what) {
  if (value.numel() != 1 || value.is_floating_point())
    throw Error(ErrorKind::format, describe(node), "{} is not one whole number", what);
  return value.item<int64_t>();
}

int64_t checked_length(const Node& node, int64_t length) {
  if (length < 1 || length > kLongest) throw Error(ErrorKind::format, describe(node), "has a length of {}", length);
  return length;
}

Tensor as_complex(const Node& node, const Tensor& x) {
  if (x.dim() < 2 || (x.size(-1) != 1 && x.size(-1) != 2))
    throw Error(ErrorKind::shape, describe(node), "{} holds neither real nor complex numbers", to_string(x.sizes()));
  if (x.size(-1) == 2) return at::view_as_complex(x.contiguous());
  return at::complex(x.select(-1, 0), at::zeros_like(x.select(-1, 0)));
}

struct Transform {
  int64_t axis, length, result;  // entries that come out along the axis
  bool inverse, onesided;
};

Transform transform_of(const Node& node, std::span<const int64_t> dims, std::optional<int64_t> length, int64_t axis) {
  if (dims.size() < 2) throw Error(ErrorKind::shape, describe(node), "{} has no signal axis", to_string(dims));
  const auto rank = static_cast<int64_t>(dims.size());
  Transform t{.axis = normalized_axis(axis, rank, node),
              .inverse = node.integer("inverse", 0) != 0,
              .onesided = node.integer("onesided", 0) != 0};
  if (t.axis == rank - 1) throw Error(ErrorKind::format, describe(node), "transforms the axis of complex numbers");
  const int64_t extent = dims[static_cast<size_t>(t.axis)];
  t.length = checked_length(node, length.value_or(t.inverse && t.onesided ? 2 * (extent - 1) : extent));
  t.result = t.onesided && !t.inverse ? t.length / 2 + 1 : t.length;
  return t;
}

Shape transformed(std::span<const int64_t> dims, const Transform& t) {
  Shape out(dims.begin(), dims.end());
  out[static_cast<size_t>(t.axis)] = t.result;
  out.back() = t.onesided && t.inverse ? 1 : 2;
  return out;
}

Tensors dft(const EvalContext& context) {
  const Node& node = context.node;
  const Tensor& x = context.in(0);
  std::optional<int64_t> length;
  if (context.has(1)) length = one_number(node, context.in(1), "the length");
  const auto t =
      transform_of(node, x.sizes(), length, context.has(2) ? one_number(node, context.in(2), "the axis") : -2);
  check_size({at::kDouble, transformed(x.sizes(), t)}, describe(node));
  if (x.numel() == 0) throw Error(ErrorKind::shape, describe(node), "transforms nothing");
  const Tensor z = as_complex(node, x);
  if (t.onesided && t.inverse) return {at::fft_irfft(z, t.length, t.axis).unsqueeze(-1)};
  if (t.onesided) return {at::view_as_real(at::fft_rfft(at::real(z), t.length, t.axis))};
  return {at::view_as_real(t.inverse ? at::fft_ifft(z, t.length, t.axis) : at::fft_fft(z, t.length, t.axis))};
}

std::vector<TensorType> infer_dft(const InferContext& context) {
  const TensorType& x = context.in(0);
  std::optional<int64_t> length;
  for (const size_t i : {1, 2})
    if (context.has(i) && !context.values[i].defined()) throw UnknownValue{};
  if (context.has(1)) length = one_number(context.node, context.values[1], "the length");
  const auto t = transform_of(context.node, x.dims, length,
                              context.has(2) ? one_number(context.node, context.values[2], "the axis") : -2);
  return {{x.dtype, transformed(x.dims, t)}};
}

// --- STFT: signal [batch, length, 1 or 2], step, window, length of a frame

struct Frames {
  int64_t step, length, count, bins;
};

Frames frames_of(const Node& node, std::span<const int64_t> x, int64_t step, int64_t length) {
  if (x.size() != 3 && x.size() != 2) throw Error(ErrorKind::shape, describe(node), "takes frames of {}", to_string(x));
  Frames f{.step = step, .length = checked_length(node, length)};
  if (step < 1 || f.length > x[1])
    throw Error(ErrorKind::format, describe(node), "takes frames of {} at every {} of {}", f.length, step, x[1]);
  f.count = (x[1] - f.length) / step + 1;
  f.bins = node.integer("onesided", 1) != 0 ? f.length / 2 + 1 : f.length;
  return f;
}

Tensors stft(const EvalContext& context) {
  const Node& node = context.node;
  const Tensor x = context.in(0).dim() == 2 ? context.in(0).unsqueeze(-1) : context.in(0);
  if (!context.has(2) && !context.has(3)) throw Error(ErrorKind::format, describe(node), "has no length of frames");
  const int64_t length =
      context.has(3) ? one_number(node, context.in(3), "the length of a frame") : context.in(2).numel();
  const Frames f = frames_of(node, x.sizes(), one_number(node, context.in(1), "the step"), length);
  check_size({at::kDouble, {x.size(0), f.count, f.length, 2}}, describe(node));
  Tensor frames = as_complex(node, x).unfold(1, f.length, f.step);  // [batch, count, length]
  if (context.has(2)) {
    if (context.in(2).dim() != 1 || context.in(2).size(0) != f.length)
      throw Error(ErrorKind::shape, describe(node), "a window of {} for frames of {}", to_string(context.in(2).sizes()),
                  f.length);
    frames = frames * context.in(2);
  }
  if (frames.numel() == 0) throw Error(ErrorKind::shape, describe(node), "transforms nothing");
  return {at::view_as_real(at::fft_fft(frames, f.length, 2).narrow(2, 0, f.bins).contiguous())};
}

std::vector<TensorType> infer_stft(const InferContext& context) {
  const Node& node = context.node;
  const TensorType& x = context.in(0);
  context.in(1);
  if (!context.values[1].defined() || (context.has(3) && !context.values[3].defined())) throw UnknownValue{};
  if (!context.has(2) && !context.has(3)) throw Error(ErrorKind::format, describe(node), "has no length of frames");
  const int64_t length =
      context.has(3) ? one_number(node, context.values[3], "the length of a frame") : context.in(2).count();
  const Frames f = frames_of(node, x.dims, one_number(node, context.values[1], "the step"), length);
  return {{x.dtype, {x.dims[0], f.count, f.bins, 2}}};
}

Cost cost_fourier(const CostContext& context) {
  const int64_t count = context.outputs[0].count();
  return {.flops = 5 * count * static_cast<int64_t>(std::ceil(std::log2(std::max<int64_t>(count, 2))))};
}

// --- windows: a − b cos(2πn/N) + c cos(4πn/N)

struct Terms {
  double a, b, c;
};
constexpr Terms kHann{0.5, 0.5, 0}, kHamming{25.0 / 46, 21.0 / 46, 0}, kBlackman{0.42, 0.5, 0.08};

at::ScalarType output_type(const Node& node) { return dtype_from_onnx(node.integer("output_datatype", 1), node); }

template <const Terms& terms>
Tensors window(const EvalContext& context) {
  const int64_t size = one_number(context.node, context.in(0), "the size");
  if (size < 0 || size > kLongest) throw Error(ErrorKind::format, describe(context.node), "has a size of {}", size);
  check_size({at::kDouble, {size}}, describe(context.node));
  const int64_t period = context.node.integer("periodic", 1) != 0 ? size : std::max<int64_t>(size - 1, 1);
  const Tensor angle =
      at::arange(size, at::kDouble) * (2 * std::numbers::pi / static_cast<double>(std::max<int64_t>(period, 1)));
  return {(terms.a - terms.b * at::cos(angle) + terms.c * at::cos(2 * angle)).to(output_type(context.node))};
}

std::vector<TensorType> infer_window(const InferContext& context) {
  context.in(0);
  if (!context.values[0].defined()) throw UnknownValue{};
  return {{output_type(context.node), {one_number(context.node, context.values[0], "the size")}}};
}

// --- MelWeightMatrix: bands, length of the transform, samples a second, lowest and highest frequency

struct Bands {
  int64_t bands, bins;
};

Bands bands_of(const Node& node, const Tensor& count, const Tensor& length) {
  const Bands b{one_number(node, count, "the number of bands"),
                checked_length(node, one_number(node, length, "the length")) / 2 + 1};
  if (b.bands < 1 || b.bands > kLongest) throw Error(ErrorKind::format, describe(node), "has {} bands", b.bands);
  return b;
}

double hertz_of_mel(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }
double mel_of_hertz(double hertz) { return 2595 * std::log10(1 + hertz / 700); }

// Triangles over the bins of the transform: band i rises from edge i to edge i+1 and falls to edge i+2.
Tensors mel_weights(const EvalContext& context) {
  const Node& node = context.node;
  const Bands b = bands_of(node, context.in(0), context.in(1));
  check_size({at::kDouble, {b.bins, b.bands}}, describe(node));
  const int64_t rate = one_number(node, context.in(2), "the rate");
  const double low = mel_of_hertz(context.in(3).item<double>()), high = mel_of_hertz(context.in(4).item<double>());
  if (rate < 1 || !std::isfinite(low) || !std::isfinite(high))
    throw Error(ErrorKind::format, describe(node), "has numbers that are no frequencies");
  const auto length = static_cast<double>(one_number(node, context.in(1), "the length"));
  const auto edge = [&](int64_t i) {
    const double mel = low + static_cast<double>(i) * (high - low) / static_cast<double>(b.bands + 2);
    const double bin = std::floor((length + 1) * hertz_of_mel(mel) / static_cast<double>(rate));
    return static_cast<int64_t>(std::clamp(bin, 0.0, static_cast<double>(b.bins)));
  };
  Tensor weights = at::zeros({b.bins, b.bands}, at::kDouble);
  auto w = weights.accessor<double, 2>();
  for (int64_t i = 0; i < b.bands; ++i) {
    const int64_t from = edge(i), peak = edge(i + 1), to = edge(i + 2);
    if (from == peak && peak < b.bins) w[peak][i] = 1;
    for (int64_t k = from; k <= peak && k < b.bins && from < peak; ++k)
      w[k][i] = static_cast<double>(k - from) / static_cast<double>(peak - from);
    for (int64_t k = peak; k < to && k < b.bins; ++k)
      w[k][i] = static_cast<double>(to - k) / static_cast<double>(to - peak);
  }
  return {weights.to(output_type(node))};
}

std::vector<TensorType> infer_mel(const InferContext& context) {
  for (const size_t i : {0, 1}) {
    context.in(i);
    if (!context.values[i].defined()) throw UnknownValue{};
  }
  const Bands b = bands_of(context.node, context.values[0], context.values[1]);
  return {{output_type(context.node), {b.bins, b.bands}}};
}

constexpr OpDef op(std::string_view type, std::string_view attributes, EvaluateFunction evaluate, InferFunction infer,
                   size_t least, size_t most) {
  return {.type = type,
          .attributes = attributes,
          .since = 17,
          .min_inputs = least,
          .max_inputs = most,
          .evaluate = evaluate,
          .infer = infer,
          .cost = cost_none,
          .labels = labels_frozen};
}

constexpr OpDef fourier(OpDef op) {
  op.cost = cost_fourier;
  return op;
}

constexpr OpDef kOps[] = {
    fourier(op("DFT", "inverse onesided", dft, infer_dft, 1, 3)),
    fourier(op("STFT", "onesided", stft, infer_stft, 2, 4)),
    op("HannWindow", "output_datatype periodic", window<kHann>, infer_window, 1, 1),
    op("HammingWindow", "output_datatype periodic", window<kHamming>, infer_window, 1, 1),
    op("BlackmanWindow", "output_datatype periodic", window<kBlackman>, infer_window, 1, 1),
    op("MelWeightMatrix", "output_datatype", mel_weights, infer_mel, 5, 5),
};

}  // namespace signal
}  // namespace

std::span<const OpDef> signal_ops() { return signal::kOps; }

}  // namespace pare
