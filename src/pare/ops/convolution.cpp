// Conv and ConvTranspose in one, two and three dimensions, with groups.
#include <ATen/ATen.h>

#include "pare/ops/common.h"
#include "pare/ops/families.h"
#include "pare/ops/window.h"

namespace pare {
namespace {
namespace convolution {

using Tensors = std::vector<at::Tensor>;
using at::Tensor;

std::span<const int64_t> spatial(at::IntArrayRef dims) { return {dims.data() + 2, dims.size() - 2}; }

// Checks what input, weight and groups have to do with each other; `transposed` weights are [in, out/groups, …].
int64_t checked_groups(const Node& node, at::IntArrayRef x, at::IntArrayRef w, bool transposed) {
  const int64_t groups = node.integer("group", 1);
  if (x.size() < 3 || x.size() > 5 || w.size() != x.size())
    throw Error(ErrorKind::shape, describe(node), "input {} and weight {} are not of 3 to 5 axes each", to_string(x),
                to_string(w));
  const bool fits = groups > 0 && (transposed ? w[0] == x[1] && x[1] % groups == 0
                                              : w[0] % groups == 0 && groups <= x[1] && x[1] % groups == 0 &&
                                                    w[1] == x[1] / groups);
  if (!fits)
    throw Error(ErrorKind::shape, describe(node), "input {} does not fit weight {} in {} groups", to_string(x),
                to_string(w), groups);
  return groups;
}

Window conv_window(const Node& node, at::IntArrayRef x, at::IntArrayRef w) {
  const auto kernel = spatial(w);
  const std::vector<int64_t> extents(kernel.begin(), kernel.end());
  const auto stated = node.integers("kernel_shape", extents);
  if (stated != extents)
    throw Error(ErrorKind::shape, describe(node), "kernel_shape {} is not that of the weight, {}", to_string(stated),
                to_string(extents));
  return window_of(node, extents, spatial(x));
}

Tensors conv(const EvalContext& context) {
  Tensor x = context.in(0);
  const Tensor& w = context.in(1);
  const int64_t groups = checked_groups(context.node, x.sizes(), w.sizes(), false);
  Window window = conv_window(context.node, x.sizes(), w.sizes());
  for (size_t i = 0; i < window.kernel.size(); ++i)
    window_count(window, i, x.size(static_cast<int64_t>(i) + 2), false, context.node);
  if (!window.symmetric()) {
    x = at::constant_pad_nd(x, pad_list(window.begin, window.end), 0);
    window.begin.assign(window.begin.size(), 0);
  }
  const Tensor bias = context.has(2) ? context.in(2) : Tensor();
  const std::vector<int64_t> none(window.kernel.size(), 0);
  return {at::convolution(x, w, bias, window.strides, window.begin, window.dilations, false, none, groups)};
}

std::vector<TensorType> infer_conv(const InferContext& context) {
  const TensorType& x = context.in(0);
  const TensorType& w = context.in(1);
  checked_groups(context.node, x.dims, w.dims, false);
  const Window window = conv_window(context.node, x.dims, w.dims);
  TensorType y{x.dtype, {x.dims[0], w.dims[0]}};
  for (size_t i = 0; i < window.kernel.size(); ++i)
    y.dims.push_back(window_count(window, i, x.dims[i + 2], false, context.node));
  return {y};
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

// Depthwise layers pass channels through (with a multiplier each input channel makes several outputs); grouped ones
// unite equal places across the groups, so that all groups stay equally wide.
void labels_conv(LabelContext& context) {
  if (!context.is_parameter(1))
    return context.freeze_inputs(fmt::format("the weight of {} is computed", describe(context.node)));
  const int64_t groups = context.node.integer("group", 1);
  const int64_t outputs = context.outputs[0].dims[1];
  const auto in = context.along(0, 1);
  const auto inputs = static_cast<int64_t>(in.size());
  if (groups > 1 && groups == inputs) {
    std::vector<int64_t> out;
    for (const int64_t id : in) out.insert(out.end(), static_cast<size_t>(outputs / inputs), id);
    context.slot(1, 0, out, SlotRole::pass);
    label_bias(context, out, SlotRole::pass);
    return context.set(0, out, 1);
  }
  const auto out = context.make(outputs);
  if (groups > 1) {
    unite_across_groups(context, in, groups);
    unite_across_groups(context, out, groups);
  }
  context.slot(1, 1, {in.begin(), in.begin() + inputs / groups}, SlotRole::consumer);
  context.slot(1, 0, out, SlotRole::producer);
  label_bias(context, out, SlotRole::producer);
  context.set(0, out, 1);
}

void rewrite_conv(RewriteContext& context) {
  const int64_t groups = context.node.integer("group", 1);
  if (groups > 1 && groups == context.inputs[0].dims[1])
    context.node.attributes["group"] = static_cast<int64_t>(context.kept_in(0, 1).size());
}

struct Transposed {
  Window window;                        // pads as they crop the full output; negative ones extend it
  std::vector<int64_t> output_padding;
  int64_t groups = 1;
};

Transposed transposed_window(const Node& node, at::IntArrayRef x, at::IntArrayRef w) {
  Transposed t;
  t.groups = checked_groups(node, x, w, true);
  const size_t n = x.size() - 2;
  const std::string auto_pad = node.text("auto_pad", "NOTSET");
  Node plain = node;  // auto_pad means something else here
  plain.attributes.erase("auto_pad");
  if (auto_pad != "NOTSET") plain.attributes.erase("pads");
  t.window = conv_window(plain, x, w);
  t.output_padding = node.integers("output_padding", std::vector<int64_t>(n, 0));
  const auto output_shape = node.integers("output_shape");
  if (t.output_padding.size() != n || (!output_shape.empty() && output_shape.size() != n))
    throw Error(ErrorKind::format, describe(node), "output_padding or output_shape has not {} values", n);
  for (size_t i = 0; i < n; ++i) {
    const int64_t stride = t.window.strides[i];
    if (t.output_padding[i] < 0 || t.output_padding[i] >= std::max(stride, t.window.dilations[i]))
      throw Error(ErrorKind::format, describe(node), "output_padding {} is not below the stride", t.output_padding[i]);
    int64_t wanted = -1;
    if (!output_shape.empty()) wanted = output_shape[i];
    else if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") wanted = x[i + 2] * stride;
    if (wanted < 0) continue;
    const int64_t total = stride * (x[i + 2] - 1) + t.output_padding[i] + t.window.reach(i) - wanted;
    t.window.begin[i] = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
    t.window.end[i] = total - t.window.begin[i];
  }
  return t;
}

int64_t transposed_extent(const Transposed& t, size_t i, int64_t extent) {
  return t.window.strides[i] * (extent - 1) + t.output_padding[i] + t.window.reach(i) - t.window.begin[i] -
         t.window.end[i];
}

Tensors conv_transpose(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const Tensor& w = context.in(1);
  const Transposed t = transposed_window(context.node, x.sizes(), w.sizes());
  const Tensor bias = context.has(2) ? context.in(2) : Tensor();
  const bool simple = t.window.symmetric() && *std::min_element(t.window.begin.begin(), t.window.begin.end()) >= 0;
  const std::vector<int64_t> none(t.window.kernel.size(), 0);
  Tensor y = at::convolution(x, w, bias, t.window.strides, simple ? t.window.begin : none, t.window.dilations, true,
                             t.output_padding, t.groups);
  if (!simple) {  // crop by negative padding
    auto pads = pad_list(t.window.begin, t.window.end);
    for (auto& pad : pads) pad = -pad;
    y = at::constant_pad_nd(y, pads, 0);
  }
  return {y};
}

std::vector<TensorType> infer_conv_transpose(const InferContext& context) {
  const TensorType& x = context.in(0);
  const TensorType& w = context.in(1);
  const Transposed t = transposed_window(context.node, x.dims, w.dims);
  TensorType y{x.dtype, {x.dims[0], w.dims[1] * t.groups}};
  for (size_t i = 0; i < t.window.kernel.size(); ++i) {
    y.dims.push_back(transposed_extent(t, i, x.dims[i + 2]));
    if (y.dims.back() <= 0) throw Error(ErrorKind::shape, describe(context.node), "the output would be empty");
  }
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
  if (groups > 1) {
    unite_across_groups(context, in, groups);
    unite_across_groups(context, out, groups);
  }
  context.slot(1, 0, in, SlotRole::consumer);
  context.slot(1, 1, {out.begin(), out.begin() + outputs / groups}, SlotRole::producer);
  label_bias(context, out, SlotRole::producer);
  context.set(0, out, 1);
}

void rewrite_conv_transpose(RewriteContext& context) {
  const int64_t groups = context.node.integer("group", 1);
  if (groups > 1 && groups == context.inputs[0].dims[1] && groups == context.outputs[0].dims[1])
    context.node.attributes["group"] = static_cast<int64_t>(context.kept_in(0, 1).size());
}

constexpr OpDef kOps[] = {
    {.type = "Conv", .min_inputs = 2, .max_inputs = 3, .evaluate = conv, .infer = infer_conv, .cost = cost_conv,
     .labels = labels_conv, .rewrite = rewrite_conv},
    {.type = "ConvTranspose", .min_inputs = 2, .max_inputs = 3, .evaluate = conv_transpose,
     .infer = infer_conv_transpose, .cost = cost_conv_transpose, .labels = labels_conv_transpose,
     .rewrite = rewrite_conv_transpose},
};

}  // namespace convolution
}  // namespace

std::span<const OpDef> convolution_ops() { return convolution::kOps; }

}  // namespace pare
