// Conv and ConvTranspose in one, two and three dimensions, with groups.
#include "pare/ops/convolution.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "pare/ops/common.h"
#include "pare/ops/families.h"
#include "pare/ops/window.h"

namespace pare {
namespace {
namespace convolution {

using Tensors = std::vector<at::Tensor>;
using at::Tensor;

using Window = std::vector<WindowAxis>;

// Checks what input, weight and groups have to do with each other; `transposed` weights are [in, out/groups, …].
int64_t checked_groups(const Node& node, at::IntArrayRef x, at::IntArrayRef w, bool transposed) {
  const int64_t groups = node.integer("group", 1);
  if (x.size() < 3 || x.size() > 5 || w.size() != x.size())
    throw Error(ErrorKind::shape, describe(node), "input {} and weight {} are not of 3 to 5 axes each", to_string(x),
                to_string(w));
  const bool fits =
      groups > 0 && (transposed ? w[0] == x[1] && x[1] % groups == 0
                                : w[0] % groups == 0 && groups <= x[1] && x[1] % groups == 0 && w[1] == x[1] / groups);
  if (!fits)
    throw Error(ErrorKind::shape, describe(node), "input {} does not fit weight {} in {} groups", to_string(x),
                to_string(w), groups);
  return groups;
}

Window conv_window(const Node& node, at::IntArrayRef x, at::IntArrayRef w) {
  return window_of(node, x, Shape(w.begin() + 2, w.end()));
}

// (begin, end) pairs for at::constant_pad_nd, last axis first; `sign` −1 crops.
Shape pad_list(const Window& window, int64_t sign) {
  Shape list;
  for (size_t i = window.size(); i-- > 0;) {
    list.push_back(sign * window[i].begin);
    list.push_back(sign * window[i].end);
  }
  return list;
}

bool is_symmetric(const Window& window) {
  return std::ranges::all_of(window, [](const WindowAxis& w) { return w.begin == w.end && w.begin >= 0; });
}

Tensors conv(const EvalContext& context) {
  return {convolve(context.node, context.in(0), context.in(1), context.has(2) ? context.in(2) : Tensor())};
}

std::vector<TensorType> infer_conv(const InferContext& context) {
  return {{context.in(0).dtype, convolved_dims(context.node, context.in(0).dims, context.in(1).dims)}};
}

// com.microsoft's: a fourth input is added, then an activation applied.
Tensors fused_conv(const EvalContext& context) {
  const Node& node = context.node;
  Tensor y = conv(context)[0];
  if (context.has(3)) y = y + context.in(3);
  const std::string activation = node.text("activation", "");
  const auto given = node.reals("activation_params");
  const auto parameter = [&](size_t i, double otherwise) { return i < given.size() ? given[i] : otherwise; };
  if (activation.empty()) return {y};
  if (activation == "Relu") return {at::relu(y)};
  if (activation == "Tanh") return {at::tanh(y)};
  if (activation == "Sigmoid") return {at::sigmoid(y)};
  if (activation == "LeakyRelu") return {at::leaky_relu(y, parameter(0, 0.01))};
  if (activation == "Clip") return {at::clamp(y, parameter(0, -INFINITY), parameter(1, INFINITY))};
  if (activation == "HardSigmoid") return {at::clamp(y * parameter(0, 0.2) + parameter(1, 0.5), 0, 1)};
  throw Error(ErrorKind::unsupported, describe(node), "has the activation '{}'", activation);
}

// ATen takes a plain matrix product for kernels of 1×1 where it has a single thread; oneDNN is twice as fast at them
// where channels come last.
bool suits_onednn(const Tensor& x, const Tensor& w, const Tensor& bias) {
  if (at::GradMode::is_enabled() || !at::globalContext().userEnabledMkldnn() || !at::hasMKLDNN()) return false;
  const bool dense = x.dim() == 4 && x.numel() > 0 && x.is_contiguous(at::MemoryFormat::ChannelsLast);
  const auto is_single = [](const Tensor& t) { return t.is_cpu() && t.scalar_type() == at::kFloat; };
  return dense && is_single(x) && is_single(w) && (!bias.defined() || is_single(bias));
}

Cost cost_conv(const CostContext& context) {
  // Every output element is a sum over the weights of its filter.
  const Shape& w = context.inputs[1].dims;
  const int64_t macs = context.outputs[0].count() * (TensorType{.dims = w}.count() / std::max<int64_t>(w[0], 1));
  return {.macs = macs, .flops = 2 * macs};
}

// Unites equal places across `groups` equal parts of a list.
void unite_across_groups(LabelContext& context, const std::vector<int64_t>& ids, int64_t groups) {
  const size_t part = ids.size() / static_cast<size_t>(groups);
  for (size_t i = part; i < ids.size(); ++i)
    context.unite(std::span(&ids[i % part], 1), std::span(&ids[i], 1), "its group has a part without channels");
}

void label_bias(LabelContext& context, const std::vector<int64_t>& ids, SlotRole role) {
  if (!context.has(2)) return;
  if (context.is_parameter(2)) return context.slot(2, 0, ids, role);
  context.freeze(ids, fmt::format("the bias of {} is computed", describe(context.node)));
}

// For an exchange: what a group reads and makes moves together. The axis of the weight that holds a group's share of
// the channels has a list for each group.
void label_group_blocks(LabelContext& context, const std::vector<int64_t>& in, const std::vector<int64_t>& out,
                        int64_t groups) {
  const auto part = [&](const std::vector<int64_t>& ids, int64_t g) {
    const auto width = static_cast<int64_t>(ids.size()) / groups;
    return std::vector<int64_t>(ids.begin() + g * width, ids.begin() + (g + 1) * width);
  };
  for (int64_t g = 0; g < groups; ++g) {
    auto ids = part(in, g);
    const auto made = part(out, g);
    ids.insert(ids.end(), made.begin(), made.end());
    context.block(std::move(ids));
  }
}

// Depthwise layers pass channels through (with a multiplier each input channel makes several outputs). For a removal
// grouped ones unite equal places across the groups, so that all groups stay equally wide.
void labels_conv(LabelContext& context) {
  if (!context.is_parameter(1))
    return context.freeze_inputs(fmt::format("the weight of {} is computed", describe(context.node)));
  const int64_t groups = context.node.integer("group", 1);
  const int64_t outputs = context.outputs[0].dims[1];
  const auto in = context.along(0, 1);
  const auto inputs = static_cast<int64_t>(in.size());
  const bool exchange = context.for_exchange();
  if (groups > 1 && groups == inputs && (!exchange || outputs == inputs)) {
    std::vector<int64_t> out;
    for (const int64_t id : in) out.insert(out.end(), static_cast<size_t>(outputs / inputs), id);
    context.slot(1, 0, out, SlotRole::pass);
    label_bias(context, out, SlotRole::pass);
    return context.set(0, out, 1);
  }
  const auto out = context.make(outputs);
  if (groups > 1 && exchange) {
    label_group_blocks(context, in, out, groups);
    context.slot(1, 1, in, SlotRole::consumer, groups);
  } else {
    if (groups > 1) unite_across_groups(context, in, groups);
    if (groups > 1) unite_across_groups(context, out, groups);
    context.slot(1, 1, {in.begin(), in.begin() + inputs / groups}, SlotRole::consumer);
  }
  context.slot(1, 0, out, SlotRole::producer);
  label_bias(context, out, SlotRole::producer);
  context.set(0, out, 1);
}

// What is added has the channels of the result.
void labels_fused_conv(LabelContext& context) {
  labels_conv(context);
  if (!context.has(3)) return;
  const std::string reason = fmt::format("{} adds what has no channels", describe(context.node));
  const Tensor& made = context.out_ids[0];
  if (made.defined() && context.ids(3).defined() && made.sizes() == context.ids(3).sizes())
    return context.unite(made, context.ids(3), reason);
  if (made.defined()) context.freeze(made, reason);
  if (context.ids(3).defined()) context.freeze(context.ids(3), reason);
}

void rewrite_conv(RewriteContext& context) {
  const int64_t groups = context.node.integer("group", 1);
  if (groups > 1 && groups == context.inputs[0].dims[1])
    context.node.attributes["group"] = static_cast<int64_t>(context.kept_in(0, 1).size());
}

// The window of a transposed convolution: begin and end crop the full output (negative ones extend it), `output` is the
// extent of the result.
struct Transposed {
  Window window;
  Shape output_padding;
  int64_t groups = 1;
};

Transposed transposed_window(const Node& node, at::IntArrayRef x, at::IntArrayRef w) {
  Transposed t;
  t.groups = checked_groups(node, x, w, true);
  const size_t n = x.size() - 2;
  const std::string auto_pad = node.text("auto_pad", "NOTSET");
  const auto output_shape = node.integers("output_shape");
  t.output_padding = node.integers("output_padding", Shape(n, 0));
  const auto pads =
      auto_pad == "NOTSET" && output_shape.empty() ? node.integers("pads", Shape(2 * n, 0)) : Shape(2 * n, 0);
  if (t.output_padding.size() != n || pads.size() != 2 * n || (!output_shape.empty() && output_shape.size() != n))
    throw Error(ErrorKind::format, describe(node), "pads, output_padding or output_shape do not fit {} axes", n);
  for (const auto* list : {&pads, &output_shape})
    for (const int64_t entry : *list)
      if (entry < -INT32_MAX || entry > INT32_MAX)
        throw Error(ErrorKind::format, describe(node), "pads or output_shape are {}", to_string(*list));
  Node plain = node;  // strides and dilations are checked as for Conv; its padding rules do not apply
  plain.attributes["auto_pad"] = std::string("NOTSET");
  plain.attributes["pads"] = Shape();
  Shape roomy(x.begin(), x.end());
  for (size_t i = 0; i < n; ++i) roomy[i + 2] = INT32_MAX;
  t.window = conv_window(plain, roomy, w);
  for (size_t i = 0; i < n; ++i) {
    WindowAxis& axis = t.window[i];
    axis.input = x[i + 2];
    if (t.output_padding[i] < 0 || t.output_padding[i] >= std::max(axis.stride, axis.dilation))
      throw Error(ErrorKind::format, describe(node), "output_padding {} is not below the stride", t.output_padding[i]);
    const int64_t full = axis.stride * (axis.input - 1) + t.output_padding[i] + axis.reach();
    axis.begin = pads[i];
    axis.end = pads[n + i];
    int64_t wanted = -1;
    if (!output_shape.empty())
      wanted = output_shape[i];
    else if (auto_pad.starts_with("SAME"))
      wanted = axis.input * axis.stride;
    if (wanted >= 0) {
      const int64_t total = full - wanted;
      axis.begin = total < 0 ? 0 : auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      axis.end = total - axis.begin;
    }
    axis.output = full - axis.begin - axis.end;
    if (axis.output <= 0 || axis.output > INT32_MAX)
      throw Error(ErrorKind::shape, describe(node), "an output extent would be {}", axis.output);
  }
  return t;
}

Tensors conv_transpose(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const Tensor& w = context.in(1);
  const Transposed t = transposed_window(context.node, x.sizes(), w.sizes());
  const Tensor bias = context.has(2) ? context.in(2) : Tensor();
  const bool simple = is_symmetric(t.window);
  const Shape padding = simple ? column(t.window, &WindowAxis::begin) : Shape(t.window.size(), 0);
  const Tensor y = at::convolution(x, w, simple ? bias : Tensor(), column(t.window, &WindowAxis::stride), padding,
                                   column(t.window, &WindowAxis::dilation), true, t.output_padding, t.groups);
  if (simple) return {y};
  const Tensor cropped = at::constant_pad_nd(y, pad_list(t.window, -1), 0);
  if (!bias.defined()) return {cropped};
  Shape per_channel(static_cast<size_t>(y.dim()), 1);
  per_channel[1] = -1;
  return {cropped + bias.reshape(per_channel)};
}

std::vector<TensorType> infer_conv_transpose(const InferContext& context) {
  const TensorType& x = context.in(0);
  const TensorType& w = context.in(1);
  const Transposed t = transposed_window(context.node, x.dims, w.dims);
  TensorType y{x.dtype, {x.dims[0], w.dims[1] * t.groups}};
  for (const auto& axis : t.window) y.dims.push_back(axis.output);
  return {y};
}

Cost cost_conv_transpose(const CostContext& context) {
  const Shape& w = context.inputs[1].dims;
  const int64_t macs = context.inputs[0].count() * (TensorType{.dims = w}.count() / std::max<int64_t>(w[0], 1));
  return {.macs = macs, .flops = 2 * macs};
}

void labels_conv_transpose(LabelContext& context) {
  if (!context.is_parameter(1))
    return context.freeze_inputs(fmt::format("the weight of {} is computed", describe(context.node)));
  const int64_t groups = context.node.integer("group", 1);
  const auto in = context.along(0, 1);
  const auto outputs = context.outputs[0].dims[1];
  if (groups > 1 && groups == static_cast<int64_t>(in.size()) && outputs == groups) {
    context.slot(1, 0, in, SlotRole::pass);
    label_bias(context, in, SlotRole::pass);
    return context.set(0, in, 1);
  }
  const auto out = context.make(outputs);
  context.slot(1, 0, in, SlotRole::consumer);
  if (groups > 1 && context.for_exchange()) {
    label_group_blocks(context, in, out, groups);
    context.slot(1, 1, out, SlotRole::producer, groups);
  } else {
    if (groups > 1) unite_across_groups(context, in, groups);
    if (groups > 1) unite_across_groups(context, out, groups);
    context.slot(1, 1, {out.begin(), out.begin() + outputs / groups}, SlotRole::producer);
  }
  label_bias(context, out, SlotRole::producer);
  context.set(0, out, 1);
}

void rewrite_conv_transpose(RewriteContext& context) {
  const int64_t groups = context.node.integer("group", 1);
  if (groups > 1 && groups == context.inputs[0].dims[1] && groups == context.outputs[0].dims[1])
    context.node.attributes["group"] = static_cast<int64_t>(context.kept_in(0, 1).size());
}

std::optional<LinearLayer> linear_conv(const Node& node, size_t weight, int64_t rank) {
  if (weight != 1 || rank < 3) return {};
  return LinearLayer{.groups = node.integer("group", 1)};
}

std::optional<LinearLayer> linear_conv_transpose(const Node& node, size_t weight, int64_t rank) {
  if (weight != 1 || rank < 3) return {};
  return LinearLayer{.groups = node.integer("group", 1), .out_axis = 1, .in_axis = 0, .transposed = true};
}

constexpr OpDef kOps[] = {
    {.type = "Conv",
     .attributes = "auto_pad dilations group kernel_shape pads strides",
     .min_inputs = 2,
     .max_inputs = 3,
     .evaluate = conv,
     .infer = infer_conv,
     .cost = cost_conv,
     .labels = labels_conv,
     .rewrite = rewrite_conv,
     .traits = {.kind = OpKind::linear, .learned = {1, 2}, .linear = linear_conv}},
    {.type = "com.microsoft.FusedConv",
     .attributes = "activation activation_params auto_pad dilations group kernel_shape pads strides",
     .min_inputs = 2,
     .max_inputs = 4,
     .evaluate = fused_conv,
     .infer = infer_conv,
     .cost = cost_conv,
     .labels = labels_fused_conv,
     .rewrite = rewrite_conv,
     .traits = {.learned = {1, 2}}},
    {.type = "ConvTranspose",
     .attributes = "auto_pad dilations group kernel_shape output_padding output_shape pads strides",
     .min_inputs = 2,
     .max_inputs = 3,
     .evaluate = conv_transpose,
     .infer = infer_conv_transpose,
     .cost = cost_conv_transpose,
     .labels = labels_conv_transpose,
     .rewrite = rewrite_conv_transpose,
     .traits = {.kind = OpKind::linear, .learned = {1, 2}, .linear = linear_conv_transpose}},
};

}  // namespace convolution
}  // namespace

at::Tensor convolve(const Node& node, const at::Tensor& input, const at::Tensor& w, const at::Tensor& bias) {
  using namespace convolution;
  const int64_t groups = checked_groups(node, input.sizes(), w.sizes(), false);
  const Window window = conv_window(node, input.sizes(), w.sizes());
  const Shape none(window.size(), 0);
  const bool padded = is_symmetric(window);
  const at::Tensor x = padded ? input : at::constant_pad_nd(input, pad_list(window, 1), 0);
  const Shape stride = column(window, &WindowAxis::stride), dilation = column(window, &WindowAxis::dilation);
  const Shape padding = padded ? column(window, &WindowAxis::begin) : none;
  if (suits_onednn(x, w, bias)) return at::mkldnn_convolution(x, w, bias, padding, stride, dilation, groups);
  return at::convolution(x, w, bias, stride, padding, dilation, false, none, groups);
}

Shape convolved_dims(const Node& node, const Shape& x, const Shape& w) {
  using namespace convolution;
  checked_groups(node, x, w, false);
  Shape y = {x[0], w[0]};
  for (const auto& axis : conv_window(node, x, w)) y.push_back(axis.output);
  return y;
}

std::span<const OpDef> convolution_ops() { return convolution::kOps; }

}  // namespace pare
