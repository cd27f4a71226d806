// Patches of pictures put together and taken apart: Col2Im, and DeformConv, whose patches are taken at places that
// another layer says.
#include <ATen/ATen.h>

#include <algorithm>

#include "pare/ops/common.h"
#include "pare/ops/subfamilies.h"
#include "pare/ops/window.h"

namespace pare {
namespace {
namespace patches {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// --- Col2Im: columns [batch, channels · block, places], extents of the picture, of a block

struct Fold {
  Shape picture, block, stride, dilation, begin, padded, places;
  int64_t channels = 0;
};

int64_t product(const Shape& dims) {
  int64_t result = 1;
  for (const int64_t dim : dims)
    if (__builtin_mul_overflow(result, dim, &result)) return -1;
  return result;
}

Fold fold_of(const Node& node, std::span<const int64_t> columns, const Shape& picture, const Shape& block) {
  const size_t n = picture.size();
  const auto pads = node.integers("pads", Shape(2 * n, 0));
  Fold f{.picture = picture,
         .block = block,
         .stride = node.integers("strides", Shape(n, 1)),
         .dilation = node.integers("dilations", Shape(n, 1))};
  bool fits = n > 0 && columns.size() == 3 && block.size() == n && pads.size() == 2 * n && f.stride.size() == n &&
              f.dilation.size() == n;
  const auto sensible = [](int64_t value, int64_t least) { return value >= least && value < INT32_MAX; };
  for (size_t i = 0; i < n && fits; ++i) {
    fits = sensible(picture[i], 1) && sensible(block[i], 1) && sensible(f.stride[i], 1) && sensible(f.dilation[i], 1) &&
           sensible(pads[i], 0) && sensible(pads[n + i], 0);
    if (!fits) break;
    f.begin.push_back(pads[i]);
    f.padded.push_back(picture[i] + pads[i] + pads[n + i]);
    const int64_t room = f.padded[i] - f.dilation[i] * (block[i] - 1) - 1;
    f.places.push_back(room < 0 ? 0 : room / f.stride[i] + 1);
  }
  const int64_t per_block = fits ? product(block) : -1;
  fits = fits && per_block > 0 && columns[1] % per_block == 0 && columns[2] == product(f.places);
  if (!fits)
    throw Error(ErrorKind::shape, describe(node), "columns {} do not make a picture of {} from blocks of {}",
                to_string(columns), to_string(picture), to_string(block));
  f.channels = columns[1] / per_block;
  return f;
}

Tensors col2im(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const Fold f = fold_of(context.node, x.sizes(), context.integers(1), context.integers(2));
  const size_t n = f.block.size();
  Shape padded = {x.size(0), f.channels};
  padded.insert(padded.end(), f.padded.begin(), f.padded.end());
  check_size({x.scalar_type(), padded}, describe(context.node));
  Tensor picture = at::zeros(padded, x.options());
  if (x.numel() == 0) {
    for (size_t k = 0; k < n; ++k) picture = picture.narrow(static_cast<int64_t>(k) + 2, f.begin[k], f.picture[k]);
    return {picture};
  }
  const int64_t per_block = product(f.block);
  Shape split = {x.size(0), f.channels, per_block};
  split.insert(split.end(), f.places.begin(), f.places.end());
  const Tensor columns = x.reshape(split);
  for (int64_t k = 0; k < per_block; ++k) {
    Tensor target = picture;
    int64_t rest = k;
    for (size_t i = n; i-- > 0;) {
      const int64_t from = rest % f.block[i] * f.dilation[i];
      rest /= f.block[i];
      target = target.slice(static_cast<int64_t>(i) + 2, from, from + (f.places[i] - 1) * f.stride[i] + 1, f.stride[i]);
    }
    target.add_(columns.select(2, k));
  }
  for (size_t i = 0; i < n; ++i) picture = picture.narrow(static_cast<int64_t>(i) + 2, f.begin[i], f.picture[i]);
  return {picture.contiguous()};
}

std::vector<TensorType> infer_col2im(const InferContext& context) {
  const Shape picture = context.integers(1);
  const Fold f = fold_of(context.node, context.in(0).dims, picture, context.integers(2));
  TensorType y{context.in(0).dtype, {context.in(0).dims[0], f.channels}};
  y.dims.insert(y.dims.end(), picture.begin(), picture.end());
  return {y};
}

// --- DeformConv: x, w, offsets [batch, offset groups · kernel · 2, height, width], bias, mask

struct Deformed {
  std::vector<WindowAxis> window;
  int64_t groups, offset_groups, taps;
};

Deformed deformed_of(const Node& node, std::span<const int64_t> x, std::span<const int64_t> w,
                     std::span<const int64_t> offsets) {
  if (x.size() != 4 || w.size() != 4 || offsets.size() != 4)
    throw Error(ErrorKind::unsupported, describe(node), "takes {} with {}: only pictures are computed", to_string(x),
                to_string(w));
  Deformed d{.window = window_of(node, x, Shape(w.begin() + 2, w.end())),
             .groups = node.integer("group", 1),
             .offset_groups = node.integer("offset_group", 1),
             .taps = w[2] * w[3]};
  const bool fits = d.groups > 0 && d.offset_groups > 0 && d.groups <= x[1] && d.offset_groups <= x[1] &&
                    x[1] % d.groups == 0 && w[0] % d.groups == 0 && w[1] == x[1] / d.groups &&
                    x[1] % d.offset_groups == 0 && offsets[0] == x[0] && offsets[1] == 2 * d.offset_groups * d.taps &&
                    offsets[2] == d.window[0].output && offsets[3] == d.window[1].output;
  if (!fits)
    throw Error(ErrorKind::shape, describe(node), "weights {} and offsets {} do not fit {}", to_string(w),
                to_string(offsets), to_string(x));
  return d;
}

// x [batch, channels, height · width] at places (y, x) of [batch, places], between its entries; 0 outside.
Tensor sampled(const Tensor& x, int64_t height, int64_t width, const Tensor& row, const Tensor& column) {
  const Tensor top = row.floor(), left = column.floor();
  Tensor result;
  for (const int dy : {0, 1})
    for (const int dx : {0, 1}) {
      const Tensor r = top + dy, c = left + dx;
      const Tensor weight = (1 - (row - r).abs()) * (1 - (column - c).abs());
      const Tensor inside = (r >= 0) & (r < height) & (c >= 0) & (c < width);
      const Tensor index = (r.clamp(0, height - 1) * width + c.clamp(0, width - 1)).to(at::kLong);
      const Tensor part = at::gather(x, 2, index.unsqueeze(1).expand({x.size(0), x.size(1), index.size(1)})) *
                          (weight * inside).unsqueeze(1);
      result = result.defined() ? result + part : part;
    }
  return result;
}

Tensors deform_conv(const EvalContext& context) {
  const Node& node = context.node;
  const Tensor& x = context.in(0);
  const Tensor& w = context.in(1);
  const Deformed d = deformed_of(node, x.sizes(), w.sizes(), context.in(2).sizes());
  const int64_t batch = x.size(0), height = d.window[0].output, width = d.window[1].output, count = height * width;
  if (x.numel() == 0 || context.in(2).numel() == 0) return {at::zeros({batch, w.size(0), height, width}, x.options())};
  const int64_t share = x.size(1) / d.offset_groups;
  check_size({x.scalar_type(), {batch, x.size(1), d.taps, count}}, describe(node));
  const Tensor offsets = context.in(2).reshape({batch, d.offset_groups, d.taps, 2, count});
  Tensor mask;
  if (context.has(4)) mask = context.in(4).reshape({batch, d.offset_groups, d.taps, count});
  const auto places = [&](const WindowAxis& axis, int64_t tap) {
    return at::arange(axis.output, x.options()) * axis.stride - axis.begin + tap * axis.dilation;
  };
  const Tensor flat = x.reshape({batch, x.size(1), -1});
  std::vector<Tensor> columns;  // [batch, channels, taps, places], channels by channels
  for (int64_t g = 0; g < d.offset_groups; ++g) {
    std::vector<Tensor> taps;
    for (int64_t k = 0; k < d.taps; ++k) {
      const Tensor rows = places(d.window[0], k / w.size(3)).reshape({-1, 1}).expand({height, width}).reshape({1, -1});
      const Tensor cols = places(d.window[1], k % w.size(3)).reshape({1, -1}).expand({height, width}).reshape({1, -1});
      const Tensor shift = offsets.select(1, g).select(1, k);
      Tensor values = sampled(flat.narrow(1, g * share, share), x.size(2), x.size(3), rows + shift.select(1, 0),
                              cols + shift.select(1, 1));
      if (mask.defined()) values = values * mask.select(1, g).select(1, k).unsqueeze(1);
      taps.push_back(values);
    }
    columns.push_back(at::stack(taps, 2));
  }
  const Tensor all = at::cat(columns, 1).reshape({batch, d.groups, -1, count});
  Tensor y =
      at::matmul(w.reshape({1, d.groups, w.size(0) / d.groups, -1}), all).reshape({batch, w.size(0), height, width});
  if (context.has(3)) y = y + context.in(3).reshape({1, -1, 1, 1});
  return {y};
}

std::vector<TensorType> infer_deform_conv(const InferContext& context) {
  const TensorType& x = context.in(0);
  const Deformed d = deformed_of(context.node, x.dims, context.in(1).dims, context.in(2).dims);
  return {{x.dtype, {x.dims[0], context.in(1).dims[0], d.window[0].output, d.window[1].output}}};
}

Cost cost_deform_conv(const CostContext& context) {
  const Shape& w = context.inputs[1].dims;
  const int64_t macs = context.outputs[0].count() * (TensorType{.dims = w}.count() / std::max<int64_t>(w[0], 1));
  return {.macs = macs, .flops = 2 * macs};
}

// Makes channels; those it reads are sampled in groups and stay, as do offsets and masks.
void labels_deform_conv(LabelContext& context) {
  context.freeze_inputs(fmt::format("{} takes samples of it", describe(context.node)));
  if (!context.is_parameter(1) || context.node.integer("group", 1) != 1 || (context.has(3) && !context.is_parameter(3)))
    return;
  const auto out = context.make(context.outputs[0].dims[1]);
  context.slot(1, 0, out, SlotRole::producer);
  if (context.has(3)) context.slot(3, 0, out, SlotRole::producer);
  context.set(0, out, 1);
}

constexpr OpDef kOps[] = {
    {.type = "Col2Im",
     .attributes = "dilations pads strides",
     .since = 18,
     .min_inputs = 3,
     .max_inputs = 3,
     .evaluate = col2im,
     .infer = infer_col2im,
     .cost = cost_elementwise,
     .labels = labels_frozen},
    {.type = "DeformConv",
     .attributes = "dilations group kernel_shape offset_group pads strides",
     .since = 19,
     .min_inputs = 3,
     .max_inputs = 5,
     .evaluate = deform_conv,
     .infer = infer_deform_conv,
     .cost = cost_deform_conv,
     .labels = labels_deform_conv,
     .traits = {.learned = {1, 3}}},
};

}  // namespace patches
}  // namespace

std::span<const OpDef> patch_ops() { return patches::kOps; }

}  // namespace pare
