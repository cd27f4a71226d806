// Regions of pictures: NonMaxSuppression, RoiAlign, AffineGrid, CenterCropPad, Col2Im.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "pare/ops/common.h"
#include "pare/ops/families.h"
#include "pare/ops/subfamilies.h"

namespace pare {
namespace {
namespace regions {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// --- NonMaxSuppression: boxes [batch, n, 4], scores [batch, classes, n], most boxes, overlap, score

using Box = std::array<float, 4>;  // x1 y1 x2 y2

Box box_of(const float* values, bool centred) {
  if (centred)
    return {values[0] - values[2] / 2, values[1] - values[3] / 2, values[0] + values[2] / 2, values[1] + values[3] / 2};
  return {std::min(values[1], values[3]), std::min(values[0], values[2]), std::max(values[1], values[3]),
          std::max(values[0], values[2])};
}

float area(const Box& b) { return (b[2] - b[0]) * (b[3] - b[1]); }

float overlap(const Box& a, const Box& b) {
  const float width = std::min(a[2], b[2]) - std::max(a[0], b[0]);
  const float height = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  if (width <= 0 || height <= 0) return 0;
  const float both = width * height;
  const float either = area(a) + area(b) - both;
  return either > 0 ? both / either : 0;
}

struct Limits {
  int64_t most = 0;
  float overlap = 0;
  float score = -INFINITY;
};

// The boxes of one class that stay, best first: each hides those behind it that it overlaps too far.
std::vector<int64_t> survivors(const std::vector<Box>& boxes, const float* scores, const Limits& limits) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < std::ssize(boxes); ++i)
    if (scores[i] > limits.score) order.push_back(i);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  std::vector<int64_t> kept;
  for (const int64_t i : order) {
    if (std::ssize(kept) >= limits.most) break;
    const bool hidden = std::ranges::any_of(kept, [&](int64_t k) {
      return overlap(boxes[static_cast<size_t>(i)], boxes[static_cast<size_t>(k)]) > limits.overlap;
    });
    if (!hidden) kept.push_back(i);
  }
  return kept;
}

Tensors non_max_suppression(const EvalContext& context) {
  const Node& node = context.node;
  const Tensor boxes = context.in(0).to(at::kFloat).contiguous();
  const Tensor scores = context.in(1).to(at::kFloat).contiguous();
  if (boxes.dim() != 3 || boxes.size(2) != 4 || scores.dim() != 3 || scores.size(0) != boxes.size(0) ||
      scores.size(2) != boxes.size(1))
    throw Error(ErrorKind::shape, describe(node), "scores {} do not belong to boxes {}", to_string(scores.sizes()),
                to_string(boxes.sizes()));
  if (boxes.numel() == 0 || scores.numel() == 0) return {at::zeros({0, 3}, at::kLong)};
  const auto number = [&](size_t i) {
    if (context.in(i).numel() != 1) throw Error(ErrorKind::format, describe(node), "input {} is not one number", i);
    return context.in(i).reshape({});
  };
  Limits limits;
  if (context.has(2)) limits.most = number(2).item<int64_t>();
  if (context.has(3)) limits.overlap = number(3).item<float>();
  if (context.has(4)) limits.score = number(4).item<float>();
  const bool centred = node.integer("center_point_box", 0) != 0;
  std::vector<int64_t> chosen;
  for (int64_t b = 0; b < boxes.size(0); ++b) {
    std::vector<Box> of_batch;
    for (int64_t i = 0; i < boxes.size(1); ++i)
      of_batch.push_back(box_of(boxes.data_ptr<float>() + (b * boxes.size(1) + i) * 4, centred));
    for (int64_t c = 0; c < scores.size(1); ++c)
      for (const int64_t i :
           survivors(of_batch, scores.data_ptr<float>() + (b * scores.size(1) + c) * scores.size(2), limits))
        chosen.insert(chosen.end(), {b, c, i});
  }
  return {at::tensor(chosen, at::kLong).reshape({-1, 3})};
}

std::vector<TensorType> infer_unknown(const InferContext& /*context*/) { throw UnknownValue{}; }

// --- RoiAlign: x [batch, channels, height, width], regions [n, 4], which picture [n]

struct Pooling {
  int64_t height, width, samples;
  double scale, shift;
  bool largest;
};

Pooling pooling_of(const Node& node) {
  const std::string mode = node.text("mode", "avg");
  const std::string places = node.text("coordinate_transformation_mode", "half_pixel");
  if ((mode != "avg" && mode != "max") || (places != "half_pixel" && places != "output_half_pixel"))
    throw Error(ErrorKind::unsupported, describe(node), "has the modes '{}' and '{}'", mode, places);
  const Pooling p{.height = node.integer("output_height", 1),
                  .width = node.integer("output_width", 1),
                  .samples = node.integer("sampling_ratio", 0),
                  .scale = node.real("spatial_scale", 1),
                  .shift = places == "half_pixel" ? 0.5 : 0,
                  .largest = mode == "max"};
  if (p.height < 1 || p.width < 1 || p.height > 1 << 16 || p.width > 1 << 16 || p.samples < 0 || p.samples > 1 << 10)
    throw Error(ErrorKind::format, describe(node), "makes {} x {} of {} samples", p.height, p.width, p.samples);
  return p;
}

// Where samples of one axis lie, between which two entries, and with which weights.
struct Samples {
  Tensor low, high;            // indices
  Tensor low_part, high_part;  // weights, 0 outside the picture
  int64_t per_place = 1;
};

Samples samples_of(double start, double end, int64_t places, int64_t extent, const Pooling& p, const Node& node) {
  double length = end - start;
  if (p.shift == 0) length = std::max(length, 1.0);
  const double step = length / static_cast<double>(places);
  const double wanted = p.samples > 0 ? static_cast<double>(p.samples) : std::max(std::ceil(step), 1.0);
  if (!(wanted <= 4096)) throw Error(ErrorKind::format, describe(node), "takes {} samples of a region", wanted);
  Samples s{.per_place = static_cast<int64_t>(wanted)};
  const Tensor k = at::arange(places * s.per_place, at::kDouble);
  const Tensor y = start + (k + 0.5) * (step / wanted);
  const Tensor inside = (y >= -1) & (y <= static_cast<double>(extent));
  const Tensor clamped = y.clamp(0, static_cast<double>(extent - 1));
  s.low = clamped.floor().to(at::kLong).clamp(0, extent - 1);
  s.high = (s.low + 1).clamp_max(extent - 1);
  s.high_part = (clamped - s.low) * inside;
  s.low_part = (1 - (clamped - s.low)) * inside;
  return s;
}

Tensor align(const Tensor& picture, const double* roi, const Pooling& p, const Node& node) {
  const Samples y =
      samples_of(roi[1] * p.scale - p.shift, roi[3] * p.scale - p.shift, p.height, picture.size(1), p, node);
  const Samples x =
      samples_of(roi[0] * p.scale - p.shift, roi[2] * p.scale - p.shift, p.width, picture.size(2), p, node);
  const auto corner = [&](const Tensor& row, const Tensor& column, const Tensor& row_part, const Tensor& column_part) {
    const Tensor weight = row_part.unsqueeze(1) * column_part;
    return picture.index_select(1, row).index_select(2, column) * weight.to(picture.scalar_type());
  };
  const Tensor corners[] = {
      corner(y.low, x.low, y.low_part, x.low_part), corner(y.low, x.high, y.low_part, x.high_part),
      corner(y.high, x.low, y.high_part, x.low_part), corner(y.high, x.high, y.high_part, x.high_part)};
  const Shape split = {picture.size(0), p.height, y.per_place, p.width, x.per_place};
  if (!p.largest) return (corners[0] + corners[1] + corners[2] + corners[3]).reshape(split).mean({2, 4});
  const Tensor largest = at::maximum(at::maximum(corners[0], corners[1]), at::maximum(corners[2], corners[3]));
  return largest.reshape(split).amax({2, 4});
}

Tensors roi_align(const EvalContext& context) {
  const Node& node = context.node;
  const Tensor& x = context.in(0);
  const Tensor rois = context.in(1).to(at::kDouble).contiguous();
  const Tensor pictures = context.in(2).to(at::kLong).contiguous();
  const Pooling p = pooling_of(node);
  if (x.dim() != 4 || x.numel() == 0 || rois.dim() != 2 || rois.size(1) != 4 || pictures.dim() != 1 ||
      pictures.size(0) != rois.size(0))
    throw Error(ErrorKind::shape, describe(node), "regions {} of {} in {}", to_string(rois.sizes()),
                to_string(pictures.sizes()), to_string(x.sizes()));
  check_size({x.scalar_type(), {rois.size(0), x.size(1), p.height, p.width}}, describe(node));
  Tensors results;
  for (int64_t r = 0; r < rois.size(0); ++r) {
    const int64_t picture = pictures[r].item<int64_t>();
    if (picture < 0 || picture >= x.size(0))
      throw Error(ErrorKind::format, describe(node), "has a region in picture {} of {}", picture, x.size(0));
    results.push_back(align(x[picture], rois.data_ptr<double>() + 4 * r, p, node));
  }
  return {results.empty() ? at::zeros({0, x.size(1), p.height, p.width}, x.options()) : at::stack(results)};
}

std::vector<TensorType> infer_roi_align(const InferContext& context) {
  const Pooling p = pooling_of(context.node);
  if (context.in(0).rank() != 4 || context.in(1).rank() != 2)
    throw Error(ErrorKind::shape, describe(context.node), "regions {} of {}", to_string(context.in(1).dims),
                to_string(context.in(0).dims));
  return {{context.in(0).dtype, {context.in(1).dims[0], context.in(0).dims[1], p.height, p.width}}};
}

// Every channel by itself; where the regions lie is not of their channels.
void labels_roi_align(LabelContext& context) {
  for (const size_t i : {1, 2})
    if (context.ids(i).defined())
      context.freeze(context.ids(i), fmt::format("{} takes regions from it", describe(context.node)));
  if (!context.ids(0).defined()) return;
  if (context.ids(0).size(1) != context.ids(0).numel())
    return context.freeze(context.ids(0), fmt::format("{} takes regions of it", describe(context.node)));
  context.set(0, context.along(0, 1), 1);
}

Cost cost_roi_align(const CostContext& context) { return {.flops = 8 * context.outputs[0].count()}; }

// --- AffineGrid: matrices [batch, d, d + 1], extents [batch, channels, …]

Shape grid_dims(const Node& node, const Shape& theta, const Shape& size) {
  const size_t axes = size.size() < 2 ? 0 : size.size() - 2;
  const bool fits = (axes == 2 || axes == 3) && theta.size() == 3 && theta[0] == size[0] &&
                    theta[1] == static_cast<int64_t>(axes) && theta[2] == static_cast<int64_t>(axes) + 1 &&
                    std::ranges::all_of(size, [](int64_t extent) { return extent > 0 && extent < (int64_t{1} << 31); });
  if (!fits)
    throw Error(ErrorKind::shape, describe(node), "matrices {} do not fit pictures {}", to_string(theta),
                to_string(size));
  Shape dims = {size[0]};
  dims.insert(dims.end(), size.begin() + 2, size.end());
  dims.push_back(static_cast<int64_t>(axes));
  return dims;
}

Tensor places(int64_t count, bool corners, const at::TensorOptions& options) {
  const Tensor i = at::arange(count, options);
  if (!corners) return (2 * i + 1) / count - 1;
  return count == 1 ? at::zeros({1}, options) : i * (2.0 / static_cast<double>(count - 1)) - 1;
}

Tensors affine_grid(const EvalContext& context) {
  const Node& node = context.node;
  const Tensor& theta = context.in(0);
  const Shape dims = grid_dims(node, theta.sizes().vec(), context.integers(1));
  check_size({theta.scalar_type(), dims}, describe(node));
  const bool corners = node.integer("align_corners", 0) != 0;
  const size_t axes = dims.size() - 2;
  Tensors columns;  // x, y(, z), 1
  const Shape extents(dims.begin() + 1, dims.end() - 1);
  for (size_t k = axes; k-- > 0;) {
    Shape along(axes, 1);
    along[k] = extents[k];
    columns.push_back(places(extents[k], corners, theta.options()).reshape(along).expand(extents));
  }
  columns.push_back(at::ones(extents, theta.options()));
  const Tensor points = at::stack(columns, -1).reshape({1, -1, static_cast<int64_t>(axes) + 1});
  return {at::matmul(points, theta.transpose(1, 2)).reshape(dims)};
}

std::vector<TensorType> infer_affine_grid(const InferContext& context) {
  return {{context.in(0).dtype, grid_dims(context.node, context.in(0).dims, context.integers(1))}};
}

// --- CenterCropPad: x, extents of some axes

Shape cropped_dims(const Node& node, Shape dims, const Shape& wanted) {
  Shape axes = node.integers("axes");
  if (axes.empty()) {
    axes.resize(dims.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  axes = normalized_axes(axes, static_cast<int64_t>(dims.size()), node);
  if (axes.size() != wanted.size())
    throw Error(ErrorKind::format, describe(node), "has {} extents for {} axes", wanted.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    if (wanted[i] < 0) throw Error(ErrorKind::format, describe(node), "asks for {}", to_string(wanted));
    dims[static_cast<size_t>(axes[i])] = wanted[i];
  }
  return dims;
}

Tensors center_crop_pad(const EvalContext& context) {
  Tensor x = context.in(0);
  const Shape dims = cropped_dims(context.node, x.sizes().vec(), context.integers(1));
  check_size({x.scalar_type(), dims}, describe(context.node));
  Shape pads(2 * dims.size(), 0);
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto axis = static_cast<int64_t>(i);
    const int64_t missing = dims[i] - x.size(axis);
    if (missing < 0) x = x.narrow(axis, -missing / 2, dims[i]);
    if (missing <= 0) continue;
    pads[2 * (dims.size() - 1 - i)] = missing / 2;
    pads[2 * (dims.size() - 1 - i) + 1] = missing - missing / 2;
  }
  return {at::constant_pad_nd(x, pads, 0)};
}

std::vector<TensorType> infer_center_crop_pad(const InferContext& context) {
  return {{context.in(0).dtype, cropped_dims(context.node, context.in(0).dims, context.integers(1))}};
}

constexpr OpDef kOps[] = {
    {.type = "NonMaxSuppression",
     .attributes = "center_point_box",
     .since = 11,
     .min_inputs = 2,
     .max_inputs = 5,
     .evaluate = non_max_suppression,
     .infer = infer_unknown,
     .cost = cost_none,
     .labels = labels_frozen},
    {.type = "RoiAlign",
     .attributes = "coordinate_transformation_mode mode output_height output_width sampling_ratio spatial_scale",
     .since = 16,
     .min_inputs = 3,
     .max_inputs = 3,
     .evaluate = roi_align,
     .infer = infer_roi_align,
     .cost = cost_roi_align,
     .labels = labels_roi_align},
    {.type = "AffineGrid",
     .attributes = "align_corners",
     .since = 20,
     .min_inputs = 2,
     .max_inputs = 2,
     .evaluate = affine_grid,
     .infer = infer_affine_grid,
     .cost = cost_elementwise,
     .labels = labels_frozen},
    {.type = "CenterCropPad",
     .attributes = "axes",
     .since = 18,
     .min_inputs = 2,
     .max_inputs = 2,
     .evaluate = center_crop_pad,
     .infer = infer_center_crop_pad,
     .cost = cost_none,
     .labels = labels_frozen},
};

}  // namespace regions
}  // namespace

std::span<const OpDef> regions_ops() {
  static const std::vector<OpDef> all = joined({regions::kOps, patch_ops()});
  return all;
}

}  // namespace pare
