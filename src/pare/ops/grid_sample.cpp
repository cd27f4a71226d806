// GridSample: the input read at the places of a flow field, as spatial transformers do (Jaderberg et al. 2015).
#include <ATen/ATen.h>

#include "pare/ops/common.h"
#include "pare/ops/dtype.h"
#include "pare/ops/subfamilies.h"

namespace pare {
namespace {
namespace grid_sample {

using at::Tensor;

int64_t mode_of(const Node& node) {
  const std::string mode = node.text("mode", "linear");
  if (mode == "linear" || mode == "bilinear") return 0;
  if (mode == "nearest") return 1;
  if (mode == "cubic" || mode == "bicubic") return 2;
  throw Error(ErrorKind::format, describe(node), "mode is '{}'", mode);
}

int64_t padding_of(const Node& node) {
  const std::string padding = node.text("padding_mode", "zeros");
  if (padding == "zeros") return 0;
  if (padding == "border") return 1;
  if (padding == "reflection") return 2;
  throw Error(ErrorKind::format, describe(node), "padding_mode is '{}'", padding);
}

// X [N, C, d1…], grid [N, o1…, number of d] → [N, C, o1…]
Shape sampled_dims(const Node& node, at::IntArrayRef x, at::IntArrayRef grid) {
  const bool fits = (x.size() == 4 || x.size() == 5) && grid.size() == x.size() && grid[0] == x[0] &&
                    grid.back() == static_cast<int64_t>(x.size()) - 2;
  if (!fits)
    throw Error(ErrorKind::shape, describe(node), "a grid of {} does not fit {}", to_string(grid), to_string(x));
  for (size_t i = 2; i < x.size(); ++i)
    if (x[i] == 0) throw Error(ErrorKind::shape, describe(node), "samples the empty {}", to_string(x));
  if (x.size() == 5 && mode_of(node) == 2)
    throw Error(ErrorKind::unsupported, describe(node), "cubic sampling of volumes");
  Shape dims{x[0], x[1]};
  dims.insert(dims.end(), grid.begin() + 1, grid.end() - 1);
  return dims;
}

// Where −1 to 1 lie on an axis of `extent` pixels: at the centres of the outer ones, or at their outer edges.
Tensor pixel_places(const Tensor& grid, int64_t extent, bool align_corners) {
  const auto n = static_cast<double>(extent);
  return align_corners ? (grid + 1) * ((n - 1) / 2) : ((grid + 1) * n - 1) / 2;
}

// Integers reflected at the outer pixels, or at their outer edges, until they lie inside.
Tensor reflected(const Tensor& index, int64_t extent, bool align_corners) {
  const auto n = static_cast<double>(extent);
  const double low = align_corners ? 0.0 : -0.5;
  const double span = align_corners ? n - 1 : n;
  if (span == 0) return at::zeros_like(index);
  const Tensor turn = at::remainder(index - low, 2 * span);
  return at::where(turn > span, 2 * span - turn, turn) + low;
}

// The nearest pixel, of two equally near ones the even one; ATen's volumes take the farther from zero.
Tensor nearest(const Node& node, const Tensor& x, const Tensor& grid) {
  const bool align_corners = node.integer("align_corners", 0) != 0;
  const int64_t padding = padding_of(node);
  const int64_t axes = x.dim() - 2;
  Tensor index;   // into the flattened extents of x
  Tensor inside;  // elsewhere zeros are read
  for (int64_t a = 0; a < axes; ++a) {
    const int64_t extent = x.size(2 + a);
    const Tensor place = at::nan_to_num(pixel_places(grid.select(-1, axes - 1 - a), extent, align_corners), -1e9);
    Tensor pixel = at::round(place);
    if (padding == 2) pixel = reflected(pixel, extent, align_corners);
    const Tensor here = (pixel >= 0).logical_and_(pixel <= static_cast<double>(extent - 1));
    const Tensor clamped = at::clamp(pixel, 0, static_cast<double>(extent - 1)).to(at::kLong);
    inside = inside.defined() ? inside.logical_and(here) : here;
    index = index.defined() ? index * extent + clamped : clamped;
  }
  Shape dims{x.size(0), x.size(1), index.numel() / std::max<int64_t>(x.size(0), 1)};
  const Tensor picked = x.flatten(2).gather(2, index.reshape({dims[0], 1, dims[2]}).expand(dims));
  const Tensor read = padding == 0 ? picked * inside.reshape({dims[0], 1, dims[2]}) : picked;
  return read.reshape(sampled_dims(node, x.sizes(), grid.sizes()));
}

std::vector<Tensor> evaluate(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const Node& node = context.node;
  sampled_dims(node, x.sizes(), context.in(1).sizes());
  const Tensor data = as_real(x);
  const Tensor grid = context.in(1).to(data.scalar_type());
  if (mode_of(node) == 1) return {narrowed(nearest(node, data, grid), x.scalar_type())};
  const auto sampler = x.dim() == 4 ? at::grid_sampler_2d : at::grid_sampler_3d;
  return {narrowed(sampler(data, grid, mode_of(node), padding_of(node), node.integer("align_corners", 0) != 0),
                   x.scalar_type())};
}

std::vector<TensorType> infer(const InferContext& context) {
  return {{context.in(0).dtype, sampled_dims(context.node, context.in(0).dims, context.in(1).dims)}};
}

Cost cost(const CostContext& context) {
  const int64_t taps = mode_of(context.node) == 1 ? 1 : mode_of(context.node) == 2 ? 16 : 4;
  return {.flops = 2 * taps * context.outputs[0].count()};
}

// Channels of the input pass; what makes the grid has to stay.
void labels(LabelContext& context) {
  if (context.ids(1).defined())
    context.freeze(context.ids(1), fmt::format("{} reads it as places", describe(context.node)));
  if (context.ids(0).defined()) context.set(0, context.along(0, 1), 1);
}

constexpr OpDef kOps[] = {
    {.type = "GridSample",
     .attributes = "align_corners mode padding_mode",
     .since = 16,
     .min_inputs = 2,
     .max_inputs = 2,
     .evaluate = evaluate,
     .infer = infer,
     .cost = cost,
     .labels = labels},
};

}  // namespace grid_sample
}  // namespace

std::span<const OpDef> grid_sample_ops() { return grid_sample::kOps; }

}  // namespace pare
