#include "pare/ops/slicing.h"

#include <ATen/ATen.h>

#include "pare/ops/common.h"

namespace pare {
namespace {
namespace slicing {

using at::Tensor;

// One axis of a Slice: indices start, start + step, … (count of them).
struct Range {
  int64_t axis = 0;
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};

// `integers(i)` gives the content of input i; starts, ends, axes and steps are inputs 1 to 4.
template <typename Context>
std::vector<Range> ranges_of(const Context& context, const Shape& dims) {
  const Node& node = context.node;
  const auto starts = context.integers(1);
  const auto ends = context.integers(2);
  std::vector<int64_t> axes;
  std::vector<int64_t> steps(starts.size(), 1);
  if (context.has(3))
    axes = context.integers(3);
  else
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (context.has(4)) steps = context.integers(4);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    throw Error(ErrorKind::shape, describe(node), "starts, ends, axes and steps differ in length");
  std::vector<Range> ranges;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = normalized_axis(axes[i], static_cast<int64_t>(dims.size()), node);
    const int64_t extent = dims.at(static_cast<size_t>(axis));
    const int64_t step = steps[i];
    if (step == 0) throw Error(ErrorKind::format, describe(node), "a step is 0");
    const auto bound = [&](int64_t at, int64_t low, int64_t high) {
      if (high < low) return low;  // backwards over an empty axis
      return std::clamp(at < 0 ? std::max(at, -extent - 1) + extent : at, low, high);
    };
    Range range{axis, bound(starts[i], 0, step > 0 ? extent : extent - 1), step, 0};
    const int64_t end = step > 0 ? bound(ends[i], 0, extent) : bound(ends[i], -1, extent - 1);
    if (step > 0 && end > range.start) range.count = (end - range.start - 1) / step + 1;
    if (step < 0 && end < range.start && extent > 0)
      range.count = (range.start - end - 1) / (step == INT64_MIN ? INT64_MAX : -step) + 1;
    ranges.push_back(range);
  }
  return ranges;
}

// One axis of a Pad.
struct Padding {
  int64_t axis = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

template <typename Context>
std::vector<Padding> paddings_of(const Context& context, const Shape& dims) {
  const Node& node = context.node;
  const auto pads = context.integers(1);
  std::vector<int64_t> axes;
  if (context.has(3))
    axes = normalized_axes(context.integers(3), static_cast<int64_t>(dims.size()), node);
  else
    for (size_t i = 0; i < dims.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (pads.size() != 2 * axes.size())
    throw Error(ErrorKind::shape, describe(node), "{} pads for {} axes", pads.size(), axes.size());
  std::vector<Padding> paddings;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Padding padding{axes[i], pads[i], pads[axes.size() + i]};
    const int64_t extent = dims[static_cast<size_t>(axes[i])];
    const int64_t limit = int64_t{1} << 31;
    if (std::abs(padding.begin) > limit || std::abs(padding.end) > limit || extent + padding.begin + padding.end < 0)
      throw Error(ErrorKind::shape, describe(node), "pads {} and {} around {}", padding.begin, padding.end, extent);
    paddings.push_back(padding);
  }
  return paddings;
}

// The indices that reflect, edge and wrap padding read from.
Tensor source_indices(const Node& node, const std::string& mode, int64_t extent, const Padding& padding) {
  if (extent == 0) throw Error(ErrorKind::shape, describe(node), "pads an empty axis by {}", mode);
  const Tensor at = at::arange(-padding.begin, extent + padding.end, at::kLong);
  if (mode == "edge") return at::clamp(at, 0, extent - 1);
  if (mode == "wrap") return at::remainder(at, extent);
  const int64_t period = std::max<int64_t>(2 * (extent - 1), 1);
  const Tensor k = at::remainder(at, period);
  return at::minimum(k, period - k).clamp_(0, extent - 1);
}

}  // namespace slicing
}  // namespace

std::vector<at::Tensor> evaluate_slice(const EvalContext& context) {
  at::Tensor x = context.in(0);
  for (const auto& range : slicing::ranges_of(context, x.sizes().vec())) {
    if (range.count == 0) {
      x = x.narrow(range.axis, 0, 0);
    } else if (range.step > 0) {
      x = at::slice(x, range.axis, range.start, range.start + (range.count - 1) * range.step + 1, range.step);
    } else {
      const at::Tensor indices = range.start + at::arange(range.count, at::kLong) * range.step;
      x = at::index_select(x, range.axis, indices);
    }
  }
  return {x};
}

std::vector<TensorType> infer_slice(const InferContext& context) {
  TensorType y = context.in(0);
  for (const auto& range : slicing::ranges_of(context, context.in(0).dims))
    y.dims[static_cast<size_t>(range.axis)] = range.count;
  return {y};
}

void labels_slice(LabelContext& context) {
  if (!context.ids(0).defined()) return;
  labels_by_execution(context, evaluate_slice);
  for (size_t i = 1; i < context.inputs.size(); ++i)
    if (context.has(i) && !context.is_parameter(i)) return;  // frozen already
  // Strides over channels cannot be written down again once some are gone.
  std::vector<at::Tensor> operands(context.inputs.size());
  for (size_t i = 0; i < operands.size(); ++i) operands[i] = i == 0 ? context.expanded(0) : context.value(i);
  const EvalContext as_eval{.node = context.node, .inputs = operands};
  for (const auto& range : slicing::ranges_of(as_eval, context.inputs[0].dims))
    if (range.step != 1 && context.ids(0).size(range.axis) > 1)
      context.keep(context.ids(0), fmt::format("{} takes every {}th channel", describe(context.node), range.step));
}

void rewrite_slice(RewriteContext& context) {
  const at::Tensor& keep = context.input_keep[0];
  if (!keep.defined()) return;
  std::vector<at::Tensor> operands(context.node.inputs.size());
  for (size_t i = 1; i < operands.size(); ++i)
    if (context.node.has_input(i)) operands[i] = context.graph.tensor(context.node.inputs[i]);
  const EvalContext as_eval{.node = context.node, .inputs = operands};
  at::Tensor starts = operands[1].to(at::kLong).clone();
  at::Tensor ends = operands[2].to(at::kLong).clone();
  const auto ranges = slicing::ranges_of(as_eval, context.inputs[0].dims);
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (keep.size(ranges[i].axis) == 1) continue;
    const auto kept = context.kept_in(0, ranges[i].axis);
    const auto before = [&](int64_t at) { return std::lower_bound(kept.begin(), kept.end(), at) - kept.begin(); };
    starts[static_cast<int64_t>(i)] = static_cast<int64_t>(before(ranges[i].start));
    ends[static_cast<int64_t>(i)] = static_cast<int64_t>(before(ranges[i].start + ranges[i].count));
  }
  context.replace(1, starts);
  context.replace(2, ends);
}

std::vector<at::Tensor> evaluate_pad(const EvalContext& context) {
  at::Tensor x = context.in(0);
  const std::string mode = context.node.text("mode", "constant");
  const auto paddings = slicing::paddings_of(context, x.sizes().vec());
  if (mode == "constant") {
    std::vector<int64_t> list(static_cast<size_t>(2 * x.dim()), 0);
    for (const auto& padding : paddings) {
      const auto place = static_cast<size_t>(2 * (x.dim() - 1 - padding.axis));
      list[place] = padding.begin;
      list[place + 1] = padding.end;
    }
    const at::Scalar value = context.has(2) ? context.in(2).item() : at::Scalar(0);
    return {at::constant_pad_nd(x, list, value)};
  }
  if (mode != "reflect" && mode != "edge" && mode != "wrap")
    throw Error(ErrorKind::unsupported, describe(context.node), "padding by '{}' is not known", mode);
  for (const auto& padding : paddings)
    if (padding.begin != 0 || padding.end != 0)
      x = at::index_select(x, padding.axis, slicing::source_indices(context.node, mode, x.size(padding.axis), padding));
  return {x};
}

std::vector<TensorType> infer_pad(const InferContext& context) {
  TensorType y = context.in(0);
  for (const auto& padding : slicing::paddings_of(context, context.in(0).dims))
    y.dims[static_cast<size_t>(padding.axis)] += padding.begin + padding.end;
  return {y};
}

// Constant padding along the channel axis makes channels of its own (the zero-padded shortcut of a CIFAR ResNet).
void labels_pad(LabelContext& context) {
  const at::Tensor& ids = context.ids(0);
  if (!ids.defined()) return;
  const bool fixed = context.is_parameter(1) && (!context.has(3) || context.is_parameter(3));
  if (!fixed) return context.freeze_inputs(fmt::format("{} is computed when it runs", describe(context.node)));
  std::vector<at::Tensor> operands(context.inputs.size());
  for (size_t i = 1; i < operands.size(); ++i)
    if (context.has(i)) operands[i] = context.value(i);
  at::Tensor result = ids;
  for (const auto& padding :
       slicing::paddings_of(EvalContext{.node = context.node, .inputs = operands}, context.inputs[0].dims)) {
    if ((padding.begin == 0 && padding.end == 0) || ids.size(padding.axis) == 1) continue;
    if (context.node.text("mode", "constant") != "constant" || padding.begin < 0 || padding.end < 0)
      return context.freeze(ids, fmt::format("{} copies or drops channels", describe(context.node)));
    const auto before = context.make(padding.begin);
    const auto after = context.make(padding.end);
    auto row = context.along(0, padding.axis);
    row.insert(row.begin(), before.begin(), before.end());
    row.insert(row.end(), after.begin(), after.end());
    Shape dims(ids.sizes().size(), 1);
    dims[static_cast<size_t>(padding.axis)] = static_cast<int64_t>(row.size());
    result = at::tensor(row, at::kLong).reshape(dims);
  }
  context.set(0, result);
}

void rewrite_pad(RewriteContext& context) {
  const at::Tensor& keep = context.output_keep[0];
  if (!keep.defined()) return;
  std::vector<at::Tensor> operands(context.node.inputs.size());
  for (size_t i = 1; i < operands.size(); ++i)
    if (context.node.has_input(i)) operands[i] = context.graph.tensor(context.node.inputs[i]);
  const auto paddings =
      slicing::paddings_of(EvalContext{.node = context.node, .inputs = operands}, context.inputs[0].dims);
  at::Tensor pads = operands[1].to(at::kLong).clone();
  for (size_t i = 0; i < paddings.size(); ++i) {
    const auto& padding = paddings[i];
    if (keep.size(padding.axis) == 1) continue;
    const int64_t extent = context.outputs[0].dims[static_cast<size_t>(padding.axis)];
    int64_t begin = 0;
    int64_t end = 0;
    for (const int64_t at : context.kept_out(0, padding.axis)) {
      if (at < padding.begin) ++begin;
      if (at >= extent - padding.end) ++end;
    }
    pads[static_cast<int64_t>(i)] = begin;
    pads[static_cast<int64_t>(paddings.size() + i)] = end;
  }
  context.replace(1, pads);
}

}  // namespace pare
