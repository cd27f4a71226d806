#include "pare/analysis/expression_laws.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "pare/ops/op.h"

namespace pare {

namespace {

bool any_pads(const Node& node) {
  const auto pads = node.integers("pads");
  const std::string automatic = node.text("auto_pad", "NOTSET");
  return std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad != 0; }) ||
         (automatic != "NOTSET" && automatic != "VALID");
}

// A constant input that is a single number; nothing when it is computed.
std::optional<double> number_of(const Graph& graph, const Node& node, size_t input, double otherwise) {
  if (!node.has_input(input)) return otherwise;
  if (!graph.is_constant(node.inputs[input]) || graph.tensor(node.inputs[input]).numel() != 1) return {};
  return graph.tensor(node.inputs[input]).to(at::kDouble).item<double>();
}

Law average_pool_law(const Node& node) {
  const bool counts_zeros = node.integer("count_include_pad", 0) != 0;
  return counts_zeros && (any_pads(node) || node.integer("ceil_mode", 0) != 0) ? Law::linear : Law::average;
}

std::optional<Law> pad_law(const Graph& graph, const Node& node) {
  if (node.text("mode", "constant") != "constant") return Law::average;
  return number_of(graph, node, 2, 0) == 0.0 ? Law::linear : Law::rigid;
}

}  // namespace

bool pads_with_zeros(const Node& node) {
  // A transposed convolution leaves out terms at the border, and between its strides.
  const auto layer = linear_layer(node, 1, 3);
  return any_pads(node) || (layer && layer->transposed);
}

std::optional<Law> elementwise_law(const Graph& graph, const Node& node) {
  if (node.op == "Dropout" && number_of(graph, node, 2, 0) != 0.0) return {};  // it is training
  if (node.op == "Clip") {
    const auto low = number_of(graph, node, 1, -1), high = number_of(graph, node, 2, -1);
    if (!low || !high) return {};
    if (*low == 0 && !node.has_input(2)) return Law::homogeneous;
  }
  const OpTraits& traits = traits_of(node);
  return is_elementwise(traits.kind) ? traits.law : std::nullopt;
}

std::optional<Law> window_law(const Graph& graph, const Node& node) {
  const OpTraits& traits = traits_of(node);
  if (traits.kind == OpKind::average && !traits.law) return average_pool_law(node);
  if (traits.kind == OpKind::padding) return pad_law(graph, node);
  if (traits.kind == OpKind::interpolation)
    return node.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize" ? Law::linear
                                                                                             : Law::average;
  return is_elementwise(traits.kind) ? std::nullopt : traits.law;
}

}  // namespace pare
