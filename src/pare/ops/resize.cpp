// Resize: inputs [X, roi, scales, sizes], in all modes of ONNX. Resizing is separable, so it goes axis by axis
// (ops/interpolation.h); doubling images and the like goes to ATen's own kernels where they mean the same.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "pare/ops/common.h"
#include "pare/ops/dtype.h"
#include "pare/ops/families.h"
#include "pare/ops/interpolation.h"
#include "pare/ops/subfamilies.h"

namespace pare {
namespace {
namespace resize {

using at::Tensor;
using Tensors = std::vector<Tensor>;

std::string choice(const Node& node, const char* name, const std::string& otherwise,
                   std::initializer_list<const char*> allowed) {
  std::string value = node.text(name, otherwise);
  if (std::ranges::find(allowed, value) == allowed.end())
    throw Error(ErrorKind::format, describe(node), "{} is '{}'", name, value);
  return value;
}

InterpolationOptions options_of(const Node& node) {
  return {.mode = choice(node, "mode", "nearest", {"nearest", "linear", "cubic"}),
          .coordinates = choice(node, "coordinate_transformation_mode", "half_pixel",
                                {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                 "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn"}),
          .nearest = choice(node, "nearest_mode", "round_prefer_floor",
                            {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}),
          .cubic_a = node.real("cubic_coeff_a", -0.75),
          .exclude_outside = node.integer("exclude_outside", 0) != 0,
          .antialias = node.integer("antialias", 0) != 0 && node.text("mode", "nearest") != "nearest"};
}

// The axes that roi, scales and sizes speak of.
Shape axes_of(const Node& node, int64_t rank) {
  if (node.has("axes")) return normalized_axes(node.integers("axes"), rank, node);
  Shape axes;
  for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  return axes;
}

std::vector<double> numbers(const Tensor& list) {
  const Tensor real = list.to(at::kDouble).flatten().contiguous();
  return {real.data_ptr<double>(), real.data_ptr<double>() + real.numel()};
}

void require_count(const Node& node, const char* what, size_t found, size_t expected) {
  if (found != expected)
    throw Error(ErrorKind::format, describe(node), "{} has {} entries, expected {}", what, found, expected);
}

// From scales: the extent is rounded down in single precision, which is what the scales are given in.
void plan_scales(const Node& node, ResizedAxis& axis, double scale) {
  if (!(scale > 0 && scale < 1e6)) throw Error(ErrorKind::format, describe(node), "a scale is {}", scale);
  axis.scale = scale;
  const bool crop = node.text("coordinate_transformation_mode", "") == "tf_crop_and_resize";
  const double part = crop ? axis.roi_end - axis.roi_begin : 1;
  axis.output = static_cast<int64_t>(
      std::floor(static_cast<float>(axis.input) * static_cast<float>(part) * static_cast<float>(scale)));
  // ONNX's reference puts the last corner at input·scale, runtimes at the extent the output really has.
  const double exact = static_cast<double>(axis.input) * scale;
  if (node.text("coordinate_transformation_mode", "") == "align_corners" &&
      std::abs(exact - static_cast<double>(axis.output)) > 1e-3)
    throw Error(ErrorKind::unsupported, describe(node),
                "scales {} entries by {} with align_corners, which ONNX and its runtimes read differently; give sizes",
                axis.input, scale);
}

// From sizes: taken as they are, or fitted into (around) them with one scale for all axes.
void plan_sizes(const Node& node, std::vector<ResizedAxis>& plan, const Shape& axes, const std::vector<double>& sizes) {
  const std::string policy =
      choice(node, "keep_aspect_ratio_policy", "stretch", {"stretch", "not_larger", "not_smaller"});
  double common = policy == "not_larger" ? INFINITY : 0;
  for (size_t k = 0; k < axes.size(); ++k) {
    ResizedAxis& axis = plan[static_cast<size_t>(axes[k])];
    if (!(sizes[k] >= 0 && sizes[k] < 1e15)) throw Error(ErrorKind::format, describe(node), "a size is {}", sizes[k]);
    axis.output = static_cast<int64_t>(sizes[k]);
    axis.scale = sizes[k] / static_cast<double>(std::max<int64_t>(axis.input, 1));
    common = policy == "not_larger" ? std::min(common, axis.scale) : std::max(common, axis.scale);
  }
  if (policy == "stretch") return;
  for (const int64_t a : axes) {
    ResizedAxis& axis = plan[static_cast<size_t>(a)];
    axis.scale = common;
    const double extent = std::floor(common * static_cast<double>(axis.input) + 0.5);
    if (!(extent < 1e15)) throw Error(ErrorKind::format, describe(node), "a size would be {}", extent);
    axis.output = static_cast<int64_t>(extent);
  }
}

// What happens to each axis. Undefined tensors are absent inputs.
std::vector<ResizedAxis> plan_of(const Node& node, std::span<const int64_t> dims, const Tensor& roi,
                                 const Tensor& scales, const Tensor& sizes) {
  const Shape axes = axes_of(node, static_cast<int64_t>(dims.size()));
  std::vector<ResizedAxis> plan;
  for (const int64_t dim : dims) plan.push_back({.input = dim, .output = dim});
  if (roi.defined() && roi.numel() > 0 && node.text("coordinate_transformation_mode", "") == "tf_crop_and_resize") {
    const auto list = numbers(roi);
    require_count(node, "roi", list.size(), 2 * axes.size());
    for (const double place : list)
      if (!(std::abs(place) < 1e6)) throw Error(ErrorKind::format, describe(node), "roi has the entry {}", place);
    for (size_t k = 0; k < axes.size(); ++k) {
      plan[static_cast<size_t>(axes[k])].roi_begin = list[k];
      plan[static_cast<size_t>(axes[k])].roi_end = list[k + axes.size()];
    }
  }
  const bool by_scale = scales.defined() && scales.numel() > 0;
  if (!by_scale && !(sizes.defined() && sizes.numel() > 0))
    throw Error(ErrorKind::format, describe(node), "has neither scales nor sizes");
  const auto list = numbers(by_scale ? scales : sizes);
  require_count(node, by_scale ? "scales" : "sizes", list.size(), axes.size());
  if (by_scale)
    for (size_t k = 0; k < axes.size(); ++k) plan_scales(node, plan[static_cast<size_t>(axes[k])], list[k]);
  else
    plan_sizes(node, plan, axes, list);
  for (const auto& axis : plan)
    if (axis.output < 0 || (axis.input == 0 && axis.output > 0))
      throw Error(ErrorKind::shape, describe(node), "cannot resize {} to {} entries along an axis", axis.input,
                  axis.output);
  return plan;
}

bool unchanged(const InterpolationOptions& options, const ResizedAxis& axis) {
  const bool whole = options.coordinates != "tf_crop_and_resize" || (axis.roi_begin == 0 && axis.roi_end == 1);
  return axis.output == axis.input && axis.scale == 1 && whole && options.coordinates != "tf_half_pixel_for_nn";
}

// --- evaluation

// Does each input entry stand `factor` times in a row?
bool repeats(const Taps& taps, const ResizedAxis& axis) {
  if (axis.input == 0 || axis.output % axis.input != 0) return false;
  const int64_t factor = axis.output / axis.input;
  for (int64_t i = 0; i < axis.output; ++i)
    if (taps.index[0][static_cast<size_t>(i)] != i / factor) return false;
  return true;
}

// ATen's kernels for images [N, C, H, W] when only H and W change; undefined where they mean something else.
Tensor by_aten(const InterpolationOptions& options, const std::vector<ResizedAxis>& plan, const Tensor& x) {
  if (plan.size() != 4 || !x.is_floating_point() || x.numel() == 0 || options.antialias) return {};
  if (!unchanged(options, plan[0]) || !unchanged(options, plan[1]) || plan[2].output < 1 || plan[3].output < 1)
    return {};
  const Shape size{plan[2].output, plan[3].output};
  if (options.mode == "nearest" && options.coordinates != "tf_crop_and_resize") {
    if (!repeats(interpolation_taps(options, plan[2]), plan[2]) ||
        !repeats(interpolation_taps(options, plan[3]), plan[3]))
      return {};
    return at::upsample_nearest2d(x, size, c10::nullopt, c10::nullopt);
  }
  if (options.mode != "linear") return {};
  const bool corners = options.coordinates == "align_corners";
  const bool half = options.coordinates == "half_pixel" ||
                    (options.coordinates == "pytorch_half_pixel" && plan[2].output > 1 && plan[3].output > 1);
  if (!corners && !half) return {};
  return at::upsample_bilinear2d(x, size, corners, plan[2].scale, plan[3].scale);
}

Tensor by_axis(const Node& node, const InterpolationOptions& options, const std::vector<ResizedAxis>& plan,
               const Tensor& x) {
  Tensor y = x;
  Tensor outside;
  for (size_t i = 0; i < plan.size(); ++i) {
    if (unchanged(options, plan[i])) continue;
    const Taps taps = interpolation_taps(options, plan[i]);
    y = interpolate(y, static_cast<int64_t>(i), taps);
    if (std::ranges::find(taps.outside, true) == taps.outside.end()) continue;
    Shape dims(plan.size(), 1);
    dims[i] = plan[i].output;
    const Tensor mask =
        at::tensor(std::vector<int64_t>(taps.outside.begin(), taps.outside.end())).to(at::kBool).reshape(dims);
    outside = outside.defined() ? at::logical_or(outside, mask) : mask;
  }
  if (!outside.defined()) return y;
  return at::where(outside, at::full({}, node.real("extrapolation_value", 0), y.options()), y);
}

Tensor optional_input(const EvalContext& context, size_t i) { return context.has(i) ? context.in(i) : Tensor(); }

Tensors evaluate(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const auto options = options_of(context.node);
  const auto plan = plan_of(context.node, x.sizes(), optional_input(context, 1), optional_input(context, 2),
                            optional_input(context, 3));
  TensorType result{x.scalar_type(), {}};
  for (const auto& axis : plan) result.dims.push_back(axis.output);
  check_size(result, describe(context.node));  // before the places of every axis are listed
  const bool copies = options.mode == "nearest" && options.coordinates != "tf_crop_and_resize";
  const Tensor data = copies ? x : as_real(x);
  Tensor y = by_aten(options, plan, widened(data));
  if (!y.defined()) y = by_axis(context.node, options, plan, data);
  if (!x.is_floating_point() && !copies && x.scalar_type() != at::kLong)
    y = at::clamp(y, lowest_of(x.scalar_type()), highest_of(x.scalar_type()));
  return {narrowed(y, x.scalar_type())};
}

// --- types, cost, labels

std::vector<TensorType> infer(const InferContext& context) {
  const auto known = [&](size_t i) {
    if (!context.has(i) || context.in(i).count() == 0) return Tensor();
    if (!context.values[i].defined()) throw UnknownValue{};
    return context.values[i];
  };
  TensorType type = context.in(0);
  options_of(context.node);
  const bool crop = context.node.text("coordinate_transformation_mode", "") == "tf_crop_and_resize";
  const auto plan = plan_of(context.node, type.dims, crop ? known(1) : Tensor(), known(2), known(3));
  for (size_t i = 0; i < plan.size(); ++i) type.dims[i] = plan[i].output;
  return {type};
}

// The multiplications of the interpolation, as if all axes were interpolated at once.
Cost cost(const CostContext& context) {
  const std::string mode = context.node.text("mode", "nearest");
  if (mode == "nearest") return {};
  int64_t taps = 1;
  for (size_t i = 0; i < context.inputs[0].dims.size(); ++i)
    if (context.inputs[0].dims[i] != context.outputs[0].dims[i]) taps *= mode == "cubic" ? 4 : 2;
  return {.flops = 2 * taps * context.outputs[0].count()};
}

// Channels pass when the axes they lie on keep their extent.
void labels(LabelContext& context) {
  const Tensor& ids = context.ids(0);
  if (!ids.defined()) return;
  const bool crop = context.node.text("coordinate_transformation_mode", "") == "tf_crop_and_resize";
  const Shape axes = axes_of(context.node, ids.dim());
  const bool by_scale =
      context.has(2) && context.value(2).defined() && context.value(2).numel() == static_cast<int64_t>(axes.size());
  const auto scales = by_scale ? numbers(context.value(2)) : std::vector<double>(axes.size(), 1);
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto a = static_cast<size_t>(axes[k]);
    if (ids.size(axes[k]) == 1) continue;
    if (crop || scales[k] != 1 || context.inputs[0].dims[a] != context.outputs[0].dims[a])
      return context.freeze(ids, fmt::format("{} resizes along it", describe(context.node)));
  }
  context.set(0, ids);
}

// A constant list of sizes names the extent of the channel axis too.
void rewrite(RewriteContext& context) {
  if (!context.node.has_input(3) || !context.graph.is_constant(context.node.inputs[3])) return;
  const Tensor& old = context.graph.tensor(context.node.inputs[3]);
  const Shape axes = axes_of(context.node, context.inputs[0].rank());
  if (old.numel() != static_cast<int64_t>(axes.size())) return;
  Tensor sizes = old.to(at::kLong).clone();
  bool changed = false;
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto before = context.outputs[0].dims[static_cast<size_t>(axes[k])];
    const auto kept = static_cast<int64_t>(context.kept_out(0, axes[k]).size());
    if (kept == before) continue;
    sizes[static_cast<int64_t>(k)] = kept;
    changed = true;
  }
  if (changed) context.replace(3, sizes.to(old.scalar_type()));
}

constexpr OpDef kOps[] = {
    {.type = "Resize",
     .attributes = "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value "
                   "keep_aspect_ratio_policy mode nearest_mode",
     .since = 13,
     .min_inputs = 1,
     .max_inputs = 4,
     .evaluate = evaluate,
     .infer = infer,
     .cost = cost,
     .labels = labels,
     .rewrite = rewrite,
     .traits = {.kind = OpKind::interpolation}},
};

}  // namespace resize
}  // namespace

std::span<const OpDef> resize_ops() {
  static const std::vector<OpDef> all = joined({resize::kOps, grid_sample_ops()});
  return all;
}

}  // namespace pare
