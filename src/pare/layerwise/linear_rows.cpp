#include "pare/layerwise/linear_rows.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <random>

#include "pare/error.h"
#include "pare/layerwise/window_rows.h"

namespace pare {

namespace {

bool is_spatial(const LinearLayer& layer) { return layer.value_axis == 1; }

Shape kernel_of(const at::Tensor& weight) {
  const auto dims = weight.sizes();
  return {dims.begin() + 2, dims.end()};
}

Shape spatial_axes(int64_t rank, int64_t first) {
  Shape axes;
  for (int64_t axis = first; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

// (begin, end) pairs as at::constant_pad_nd takes them, last axis first.
at::Tensor padded(const at::Tensor& x, const std::vector<WindowAxis>& window) {
  Shape list;
  for (size_t i = window.size(); i-- > 0;) list.insert(list.end(), {window[i].begin, window[i].end});
  const bool any = std::any_of(list.begin(), list.end(), [](int64_t pad) { return pad != 0; });
  return any ? at::constant_pad_nd(x, list, 0) : x;
}

// The input of a transposed convolution with zeros between its entries, over which it is a plain one with the kernel
// turned round.
at::Tensor with_zeros_between(const at::Tensor& x, const Shape& stride) {
  Shape dims = x.sizes().vec();
  for (size_t i = 0; i < stride.size(); ++i) dims[i + 2] = (dims[i + 2] - 1) * stride[i] + 1;
  at::Tensor wide = at::zeros(dims, x.options());
  at::Tensor entries = wide;
  for (size_t i = 0; i < stride.size(); ++i)
    entries = entries.slice(static_cast<int64_t>(i) + 2, 0, c10::nullopt, stride[i]);
  entries.copy_(x);
  return wide;
}

std::vector<WindowAxis> transposed_window(const Node& node, const at::Tensor& wide, const Shape& kernel) {
  const size_t axes = kernel.size();
  const Shape pads = node.integers("pads", Shape(2 * axes, 0));
  const Shape extra = node.integers("output_padding", Shape(axes, 0));
  const Shape dilation = node.integers("dilations", Shape(axes, 1));
  std::vector<WindowAxis> window;
  for (size_t i = 0; i < axes; ++i) {
    WindowAxis w{.input = wide.size(static_cast<int64_t>(i) + 2), .kernel = kernel[i], .dilation = dilation[i]};
    w.begin = w.reach() - 1 - pads[i];
    w.end = w.reach() - 1 - pads[i + axes] + extra[i];
    w.output = w.input + w.begin + w.end - w.reach() + 1;
    window.push_back(w);
  }
  return window;
}

// A matrix product's value with one row for each place: [1, images·places, channels].
at::Tensor rows_at_places(const at::Tensor& value, const at::Tensor& places, const std::vector<int64_t>& order) {
  at::Tensor rows = value.reshape({places.size(0), -1, value.size(-1)});
  if (places.size(1) != rows.size(1)) rows = rows.index({at::arange(places.size(0)).unsqueeze(1), places});
  if (!order.empty()) rows = rows.index_select(0, at::tensor(order, at::kLong));
  return rows.flatten(0, 1).unsqueeze(0);
}

}  // namespace

bool has_rows(const Graph& graph, const LinearLayer& layer) {
  if (!layer.transposed) return true;
  const Node& node = graph.nodes[layer.node];
  const std::string pad = node.text("auto_pad", "NOTSET");
  return (pad.empty() || pad == "NOTSET" || pad == "VALID") && !node.has("output_shape");
}

Shape weight_dims(const Graph& graph, const LinearLayer& layer) {
  const at::Tensor& weight = graph.tensor(graph.nodes[layer.node].inputs[1]);
  if (!is_spatial(layer)) return {1, weight.size(1 - layer.in_axis), weight.size(layer.in_axis), 1};
  const int64_t first = weight.size(0) / layer.groups, second = weight.size(1);
  int64_t kernel = 1;
  for (const int64_t extent : kernel_of(weight)) kernel *= extent;
  return {layer.groups, layer.transposed ? second : first, layer.transposed ? first : second, kernel};
}

at::Tensor weight_by_group(const Graph& graph, const LinearLayer& layer) {
  at::Tensor weight = graph.tensor(graph.nodes[layer.node].inputs[1]).to(at::kDouble);
  if (!is_spatial(layer)) return (layer.in_axis == 0 ? weight.t() : weight).unsqueeze(0).unsqueeze(-1).contiguous();
  const int64_t groups = layer.groups;
  if (layer.transposed) weight = weight.flip(spatial_axes(weight.dim(), 2));
  weight = weight.flatten(2).reshape({groups, weight.size(0) / groups, weight.size(1), -1});
  return (layer.transposed ? weight.transpose(1, 2) : weight).contiguous();
}

void store_weight(Graph& graph, const LinearLayer& layer, const at::Tensor& weight) {
  const at::Tensor& old = graph.tensor(graph.nodes[layer.node].inputs[1]);
  at::Tensor fresh = layer.transposed ? weight.transpose(1, 2) : weight;
  if (is_spatial(layer)) {
    Shape dims = {fresh.size(0) * fresh.size(1), fresh.size(2)};
    for (const int64_t extent : kernel_of(old)) dims.push_back(extent);
    fresh = fresh.reshape(dims);
    if (layer.transposed) fresh = fresh.flip(spatial_axes(fresh.dim(), 2));
  } else {
    fresh = fresh.squeeze(0).squeeze(-1);
    if (layer.in_axis == 0) fresh = fresh.t();
  }
  replace_constant(graph, layer.node, 1, fresh.contiguous().to(old.scalar_type()));
}

at::Tensor sampled_places(int64_t all, int64_t most, int64_t first_image, int64_t images, uint64_t seed) {
  if (all <= most) return at::arange(all).expand({images, all});
  at::Tensor places = at::empty({images, most}, at::kLong);
  auto entry = places.accessor<int64_t, 2>();
  for (int64_t i = 0; i < images; ++i) {
    std::seed_seq mixed{seed, static_cast<uint64_t>(first_image + i)};
    std::mt19937 random(mixed);
    for (int64_t p = 0; p < most; ++p) {
      const int64_t begin = all * p / most, end = all * (p + 1) / most;
      entry[i][p] = begin + static_cast<int64_t>(random() % static_cast<uint64_t>(end - begin));
    }
  }
  return places;
}

int64_t places_of(const LinearLayer& layer, const at::Tensor& y) {
  const int64_t axis = layer.value_axis < 0 ? y.dim() - 1 : layer.value_axis;
  int64_t places = 1;
  for (int64_t i = 1; i < y.dim(); ++i) places *= i == axis ? 1 : y.size(i);
  return places;
}

at::Tensor input_rows(const Graph& graph, const LinearLayer& layer, const at::Tensor& x, const at::Tensor& places,
                      const std::vector<int64_t>& order) {
  if (!is_spatial(layer)) return rows_at_places(x, places, order);
  const Node& node = graph.nodes[layer.node];
  const Shape kernel = kernel_of(graph.tensor(node.inputs[1]));
  at::Tensor view = x;
  if (layer.transposed) view = with_zeros_between(x, node.integers("strides", Shape(kernel.size(), 1)));
  const auto window = layer.transposed ? transposed_window(node, view, kernel) : window_of(node, view.sizes(), kernel);
  return window_rows(padded(view, window), window, places, layer.groups, order);
}

at::Tensor output_rows(const LinearLayer& layer, const at::Tensor& y, const at::Tensor& places,
                       const std::vector<int64_t>& order) {
  if (!is_spatial(layer)) return rows_at_places(y, places, order);
  std::vector<WindowAxis> point;
  for (const int64_t extent : y.sizes().slice(2)) point.push_back({.input = extent, .output = extent});
  return window_rows(y, point, places, layer.groups, order);
}

}  // namespace pare
