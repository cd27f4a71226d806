// Pooling: MaxPool, AveragePool, LpPool, their global forms, and MaxUnpool.
//
// ATen's own kernels are taken where the padding is the same on both sides. Otherwise MaxPool pads with the smallest
// number, and the sums behind AveragePool and LpPool are taken axis by axis: a sum over a box is a sum of sums.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "pare/ops/common.h"
#include "pare/ops/dtype.h"
#include "pare/ops/families.h"
#include "pare/ops/max_windows.h"
#include "pare/ops/window.h"

namespace pare {
namespace {
namespace pooling {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using Window = std::vector<WindowAxis>;

// Can ATen's kernels take the padding as it is?
bool symmetric(const Window& window) {
  return std::ranges::all_of(window, [](const WindowAxis& w) { return w.begin == w.end && 2 * w.begin <= w.kernel; });
}

// ceil_mode must be the same on all axes for ATen; the window list comes from one attribute, so it is.
bool runs_over(const Window& window) { return window[0].ceil; }

// Do windows neither overlap nor leave the input?
bool is_tiling(const Window& window) {
  return std::all_of(window.begin(), window.end(), [](const WindowAxis& axis) {
    return axis.begin == 0 && axis.stride == axis.kernel && axis.dilation == 1 &&
           axis.output == axis.input / axis.kernel;
  });
}

// Everything the window covers, with `value` where there is no input.
Tensor padded(const Tensor& x, const Window& window, const at::Scalar& value) {
  Shape pads;
  for (size_t i = window.size(); i-- > 0;) {
    pads.push_back(window[i].begin);
    pads.push_back(std::max<int64_t>(window[i].needed() - window[i].input, 0));
  }
  if (std::ranges::all_of(pads, [](int64_t p) { return p == 0; })) return x;
  return at::constant_pad_nd(x, pads, value);
}

Window unpadded(Window window) {
  for (auto& w : window) w.begin = w.end = 0, w.ceil = false;
  return window;
}

void require_three_axes(const Node& node, const Window& window) {
  if (window.size() > 3)
    throw Error(ErrorKind::unsupported, describe(node), "pools {} axes; three are the most", window.size());
}

// --- MaxPool

// Flat positions in one padded plane, as ATen gives them → ONNX's positions in the whole unpadded input tensor.
Tensor onnx_indices(const Tensor& found, const Window& window, const Shape& plane, const Shape& offset,
                    bool column_major) {
  Tensor rest = found;
  Tensor position = at::zeros_like(found);
  int64_t step = 1;
  std::vector<Tensor> coordinate(window.size());
  for (size_t i = window.size(); i-- > 0;) {
    coordinate[i] = (at::remainder(rest, plane[i]) - offset[i]).clamp(0, window[i].input - 1);
    rest = at::floor_divide(rest, plane[i]);
  }
  for (size_t k = 0; k < window.size(); ++k) {
    const size_t i = column_major ? k : window.size() - 1 - k;
    position = position + coordinate[i] * step;
    step *= window[i].input;
  }
  Shape planes(found.sizes().size(), 1);
  planes[0] = found.size(0);
  planes[1] = found.size(1);
  return position + at::arange(planes[0] * planes[1], at::kLong).reshape(planes) * step;
}

Tensors max_pool(const EvalContext& context) {
  const Tensor& x = context.in(0);
  Window window = window_of(context.node, x.sizes());
  require_three_axes(context.node, window);
  const bool with_indices = context.node.outputs.size() > 1 && !context.node.outputs[1].empty();
  const Window asked = window;
  Tensor data = x.is_floating_point() ? widened(x) : x.to(at::kFloat);
  Shape plane = column(window, &WindowAxis::input);
  Shape offset(window.size(), 0);
  if (!symmetric(window)) {
    offset = column(window, &WindowAxis::begin);
    data = padded(data, window, lowest_of(at::kFloat));
    window = unpadded(window);
    for (size_t i = 0; i < window.size(); ++i) plane[i] = data.size(static_cast<int64_t>(i) + 2);
  }
  const bool line = window.size() == 1;
  if (line) {  // one axis is pooled as two, so that there is one pair of kernels
    data = data.unsqueeze(2);
    window.insert(window.begin(), WindowAxis{.input = 1, .output = 1, .ceil = window[0].ceil});
  }
  const Shape kernel = column(window, &WindowAxis::kernel);
  const Shape stride = column(window, &WindowAxis::stride);
  const Shape pad = column(window, &WindowAxis::begin);
  const Shape dilation = column(window, &WindowAxis::dilation);
  const bool ceil = runs_over(window);
  Tensor y;
  Tensor found;
  if (window.size() == 3)
    std::tie(y, found) = at::max_pool3d_with_indices(data, kernel, stride, pad, dilation, ceil);
  else if (!with_indices && is_tiling(window) && at::GradMode::is_enabled() && data.requires_grad() &&
           suits_max_of_windows(data, {kernel[0], kernel[1]}))
    y = max_of_windows(data, {kernel[0], kernel[1]});
  else if (with_indices)
    std::tie(y, found) = at::max_pool2d_with_indices(data, kernel, stride, pad, dilation, ceil);
  else
    y = at::max_pool2d(data, kernel, stride, pad, dilation, ceil);
  if (line) y = y.squeeze(2);
  y = narrowed(y, x.scalar_type());
  if (!with_indices) return {y};
  if (line) found = found.squeeze(2);
  return {y, onnx_indices(found, asked, plane, offset, context.node.integer("storage_order", 0) != 0)};
}

std::vector<TensorType> infer_pool(const InferContext& context) {
  TensorType type = context.in(0);
  const Window window = window_of(context.node, type.dims);
  for (size_t i = 0; i < window.size(); ++i) type.dims[i + 2] = window[i].output;
  if (context.node.op == "MaxPool") return {type, {at::kLong, type.dims}};
  return {type};
}

// --- AveragePool and LpPool

// The sum under each place of the window.
Tensor window_sums(const Tensor& x, const Window& window) {
  Tensor sum = padded(x, window, 0);
  for (size_t i = 0; i < window.size(); ++i) {
    const auto& w = window[i];
    const auto axis = static_cast<int64_t>(i) + 2;
    const int64_t span = (w.output - 1) * w.stride + 1;
    Tensor line;
    for (int64_t tap = 0; tap < w.kernel; ++tap) {
      const Tensor part = sum.slice(axis, tap * w.dilation, tap * w.dilation + span, w.stride);
      line = tap == 0 ? part : line + part;
    }
    sum = line;
  }
  return sum;
}

// How many inputs each place of the window counts. Padding counts when `include` says so; what lies beyond the padding
// (ceil_mode) never does.
Tensor window_counts(const Window& window, bool include, const Tensor& like) {
  Tensor counts = at::ones({}, like.options());
  for (size_t i = 0; i < window.size(); ++i) {
    const auto& w = window[i];
    const int64_t low = include ? -w.begin : 0;
    const int64_t high = w.input + (include ? w.end : 0);
    const auto taps_before = [&](int64_t end, int64_t first) {  // those of the window that lie before `end`
      return std::clamp<int64_t>((end - first + w.dilation - 1) / w.dilation, 0, w.kernel);
    };
    std::vector<double> line;
    for (int64_t place = 0; place < w.output; ++place) {
      const int64_t first = place * w.stride - w.begin;
      const int64_t count = taps_before(high, first) - taps_before(std::max(low, first), first);
      line.push_back(static_cast<double>(std::max<int64_t>(count, 1)));
    }
    Shape dims(window.size(), 1);
    dims[i] = w.output;
    counts = counts * at::tensor(line, like.options()).reshape(dims);
  }
  return counts;
}

Tensors average_pool(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const Window window = window_of(context.node, x.sizes());
  const bool include = context.node.integer("count_include_pad", 0) != 0;
  const bool plain = symmetric(window) && window.size() <= 3 &&
                     std::ranges::all_of(window, [](const WindowAxis& w) { return w.dilation == 1; });
  const Tensor data = as_real(x);
  if (!plain) {
    const Tensor sums = window_sums(data, window);
    return {narrowed(sums / window_counts(window, include, data), x.scalar_type())};
  }
  const Shape kernel = column(window, &WindowAxis::kernel);
  const Shape stride = column(window, &WindowAxis::stride);
  const Shape pad = column(window, &WindowAxis::begin);
  const auto pool = window.size() == 1 ? nullptr : window.size() == 2 ? at::avg_pool2d : at::avg_pool3d;
  const Tensor y = pool == nullptr ? at::avg_pool1d(data, kernel, stride, pad, runs_over(window), include)
                                   : pool(data, kernel, stride, pad, runs_over(window), include, c10::nullopt);
  return {narrowed(y, x.scalar_type())};
}

int64_t norm_order(const Node& node) {
  const int64_t p = node.integer("p", 2);
  if (p < 1) throw Error(ErrorKind::format, describe(node), "p is {}, expected at least 1", p);
  return p;
}

Tensors lp_pool(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const Window window = window_of(context.node, x.sizes());
  const int64_t p = norm_order(context.node);
  const Tensor data = at::abs(as_real(x));
  const Tensor sums = window_sums(p == 1 ? data : at::pow(data, p), window);
  return {narrowed(p == 1 ? sums : at::pow(sums, 1.0 / static_cast<double>(p)), x.scalar_type())};
}

// --- global pooling

Shape spatial_axes(const Node& node, std::span<const int64_t> dims) {
  if (dims.size() < 2)
    throw Error(ErrorKind::shape, describe(node), "pools {}, which has no channels", to_string(dims));
  Shape axes;
  for (size_t i = 2; i < dims.size(); ++i) {
    if (dims[i] == 0) throw Error(ErrorKind::shape, describe(node), "pools the empty {}", to_string(dims));
    axes.push_back(static_cast<int64_t>(i));
  }
  return axes;
}

Tensors global_average_pool(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const Shape axes = spatial_axes(context.node, x.sizes());
  if (axes.empty()) return {x};
  return {narrowed(at::mean(as_real(x), axes, /*keepdim=*/true), x.scalar_type())};
}

Tensors global_max_pool(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const Shape axes = spatial_axes(context.node, x.sizes());
  if (axes.empty()) return {x};
  return {at::amax(x, axes, /*keepdim=*/true)};
}

Tensors global_lp_pool(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const Shape axes = spatial_axes(context.node, x.sizes());
  const int64_t p = norm_order(context.node);
  const Tensor data = at::abs(as_real(x));
  if (axes.empty()) return {narrowed(data, x.scalar_type())};
  const Tensor sums = at::sum(p == 1 ? data : at::pow(data, p), axes, /*keepdim=*/true);
  return {narrowed(p == 1 ? sums : at::pow(sums, 1.0 / static_cast<double>(p)), x.scalar_type())};
}

std::vector<TensorType> infer_global(const InferContext& context) {
  TensorType type = context.in(0);
  for (const int64_t axis : spatial_axes(context.node, type.dims)) type.dims[static_cast<size_t>(axis)] = 1;
  return {type};
}

// --- MaxUnpool

// The extents that the pooled tensor came from, if nothing was cut off.
Shape unpooled_dims(const Node& node, std::span<const int64_t> dims) {
  if (dims.size() < 3)
    throw Error(ErrorKind::shape, describe(node), "unpools {}, which has no spatial axes", to_string(dims));
  const size_t count = dims.size() - 2;
  const Shape kernel = node.integers("kernel_shape");
  const Shape stride = node.integers("strides", Shape(count, 1));
  const Shape pads = node.integers("pads", Shape(2 * count, 0));
  if (kernel.size() != count || stride.size() != count || pads.size() != 2 * count)
    throw Error(ErrorKind::format, describe(node), "kernel_shape, strides and pads do not fit {}", to_string(dims));
  for (const Shape* list : {&kernel, &stride, &pads})
    for (const int64_t value : *list)
      if (value < 0 || value > INT32_MAX)
        throw Error(ErrorKind::format, describe(node), "kernel_shape, strides or pads of {}", value);
  Shape result(dims.begin(), dims.end());
  for (size_t i = 0; i < count; ++i) {
    if (dims[i + 2] > INT32_MAX) throw Error(ErrorKind::shape, describe(node), "cannot unpool {}", to_string(dims));
    result[i + 2] = (dims[i + 2] - 1) * stride[i] - pads[i] - pads[i + count] + kernel[i];
    if (result[i + 2] < 1)
      throw Error(ErrorKind::shape, describe(node), "would unpool {} to {}", to_string(dims), to_string(result));
  }
  return result;
}

// The indices point into the extents above; a larger output_shape adds zeros after them.
Tensors max_unpool(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const Tensor indices = context.in(1).to(at::kLong).flatten();
  const Shape dims = unpooled_dims(context.node, x.sizes());
  const int64_t count = TensorType{at::kFloat, dims}.count();
  if (indices.numel() != x.numel())
    throw Error(ErrorKind::shape, describe(context.node), "{} values have {} indices", x.numel(), indices.numel());
  if (indices.numel() > 0 && (indices.min().item<int64_t>() < 0 || indices.max().item<int64_t>() >= count))
    throw Error(ErrorKind::format, describe(context.node), "an index is outside {}", to_string(dims));
  Tensor y = at::zeros({count}, x.options()).scatter(0, indices, x.flatten()).reshape(dims);
  if (!context.has(2)) return {y};
  const Shape wanted = context.integers(2);
  if (wanted.size() != dims.size())
    throw Error(ErrorKind::shape, describe(context.node), "output_shape {} has another rank than {}", to_string(wanted),
                to_string(dims));
  Shape pads;
  for (size_t i = dims.size(); i-- > 0;) {
    if (wanted[i] < dims[i])
      throw Error(ErrorKind::shape, describe(context.node), "output_shape {} is smaller than {}", to_string(wanted),
                  to_string(dims));
    pads.insert(pads.end(), {0, wanted[i] - dims[i]});
  }
  return {at::constant_pad_nd(y, pads, 0)};
}

std::vector<TensorType> infer_unpool(const InferContext& context) {
  if (context.has(2)) return {{context.in(0).dtype, context.integers(2)}};
  return {{context.in(0).dtype, unpooled_dims(context.node, context.in(0).dims)}};
}

// --- cost and labels

Cost cost_window(const CostContext& context) {
  int64_t taps = 1;
  for (const int64_t k : context.node.integers("kernel_shape")) taps *= k;
  return {.flops = context.outputs[0].count() * taps};
}

Cost cost_inputs(const CostContext& context) { return {.flops = context.inputs[0].count()}; }

// Every channel is pooled by itself; parts of a plane that are pooled together become one channel.
void labels_pool(LabelContext& context) {
  if (!context.ids(0).defined()) return;
  if (context.outputs.size() > 1 && context.node.outputs.size() > 1 && !context.node.outputs[1].empty())
    return context.freeze_inputs(fmt::format("{} gives positions in the whole tensor", describe(context.node)));
  context.set(0, context.along(0, 1), 1);
}

constexpr OpDef pool(std::string_view type, EvaluateFunction evaluate, int since) {
  return {.type = type,
          .since = since,
          .min_inputs = 1,
          .max_inputs = 1,
          .evaluate = evaluate,
          .infer = infer_pool,
          .cost = cost_window,
          .labels = labels_pool};
}

constexpr OpDef global(std::string_view type, EvaluateFunction evaluate) {
  return {.type = type,
          .min_inputs = 1,
          .max_inputs = 1,
          .evaluate = evaluate,
          .infer = infer_global,
          .cost = cost_inputs,
          .labels = labels_pool};
}

constexpr OpDef kOps[] = {
    pool("MaxPool", max_pool, 10)
        .taking("auto_pad ceil_mode dilations kernel_shape pads storage_order strides")
        .being({.kind = OpKind::maximum, .law = Law::order}),
    pool("AveragePool", average_pool, 10)
        .taking("auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides")
        .being({.kind = OpKind::average}),
    pool("LpPool", lp_pool, 2)
        .taking("auto_pad ceil_mode dilations kernel_shape p pads strides")
        .being({.law = Law::homogeneous}),
    global("GlobalAveragePool", global_average_pool).being({.kind = OpKind::average, .law = Law::average}),
    global("GlobalMaxPool", global_max_pool).being({.kind = OpKind::maximum, .law = Law::order}),
    global("GlobalLpPool", global_lp_pool).taking("p").being({.law = Law::homogeneous}),
    {.type = "MaxUnpool",
     .attributes = "kernel_shape pads strides",
     .since = 9,
     .min_inputs = 2,
     .max_inputs = 3,
     .evaluate = max_unpool,
     .infer = infer_unpool,
     .cost = cost_none,
     .labels = labels_frozen},
};

}  // namespace pooling
}  // namespace

std::span<const OpDef> pooling_ops() { return pooling::kOps; }

}  // namespace pare
