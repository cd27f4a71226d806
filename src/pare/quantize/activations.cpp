#include "pare/quantize/activations.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pare {

ActivationGrid activation_grid(const ValueRange& range, bool symmetric) {
  ActivationGrid grid{.symmetric = symmetric};
  const double low = std::min(range.low, 0.0), high = std::max(range.high, 0.0);
  const double reach = symmetric ? std::max(-low, high) / 127 : (high - low) / 255;
  grid.scale = static_cast<float>(reach);
  if (!(grid.scale > 0)) {
    grid.scale = 1;
    return grid;
  }
  // Rounded down: what an activation cuts off lies outside the grid as well, so that runtimes can leave it out.
  while (static_cast<double>(grid.scale) > reach) grid.scale = std::nextafter(grid.scale, 0.0F);
  if (!symmetric) grid.zero = std::clamp<int64_t>(std::llround(-low / static_cast<double>(grid.scale)), 0, 255);
  return grid;
}

namespace {

// What a Clip lets through.
ValueRange let_through(const Graph& graph, const std::string& value, ValueRange range) {
  for (const auto& node : graph.nodes) {
    if (node.op != "Clip" || node.outputs[0] != value) continue;
    const auto bound = [&](size_t i, double otherwise) {
      return node.has_input(i) && graph.is_constant(node.inputs[i]) ? graph.tensor(node.inputs[i]).item<double>()
                                                                    : otherwise;
    };
    range = {std::max(range.low, bound(1, range.low)), std::min(range.high, bound(2, range.high))};
  }
  return range;
}

class Insertion {
 public:
  Insertion(const Graph& graph, const QuantizationPlan& plan, const std::map<std::string, ValueRange>& ranges,
            bool symmetric)
      : plan_(plan), ranges_(ranges), symmetric_(symmetric) {
    result_.graph = graph;  // with its nodes until the end, so that fresh names are new
    for (const auto& input : graph.inputs) add_pair(graph, input.name);
    for (Node node : graph.nodes) {
      for (auto& input : node.inputs)
        if (const auto found = result_.names.find(input); found != result_.names.end()) input = found->second;
      const std::vector<std::string> outputs = node.outputs;
      nodes_.push_back(std::move(node));
      for (const auto& output : outputs) add_pair(graph, output);
    }
    result_.graph.nodes = std::move(nodes_);
  }

  QuantizedActivations take() { return std::move(result_); }

 private:
  void add_pair(const Graph& original, const std::string& value) {
    const auto planned = plan_.values.find(value);
    if (planned == plan_.values.end()) return;
    const std::string& root = planned->second;
    Graph& graph = result_.graph;
    if (!constants_.contains(root)) {
      const ActivationGrid grid = activation_grid(let_through(original, root, ranges_.at(root)), symmetric_);
      const std::string scale = fresh_name(graph, root + "_scale");
      graph.tensors[scale] = at::scalar_tensor(grid.scale, at::kFloat);
      const std::string zero = fresh_name(graph, root + "_zero_point");
      graph.tensors[zero] = at::scalar_tensor(grid.zero, at::kLong).to(symmetric_ ? at::kChar : at::kByte);
      constants_[root] = {scale, zero};
      result_.grids[root] = grid;
    }
    const auto& [scale, zero] = constants_.at(root);
    result_.grids[value] = result_.grids.at(root);
    const std::string integers = fresh_name(graph, value + "_quantized");
    nodes_.push_back({.name = fresh_name(graph, value + "_QuantizeLinear"),
                      .op = "QuantizeLinear",
                      .inputs = {value, scale, zero},
                      .outputs = {integers}});
    const std::string back = fresh_name(graph, value + "_dequantized");
    nodes_.push_back({.name = fresh_name(graph, value + "_DequantizeLinear"),
                      .op = "DequantizeLinear",
                      .inputs = {integers, scale, zero},
                      .outputs = {back}});
    result_.names[value] = back;
  }

  const QuantizationPlan& plan_;
  const std::map<std::string, ValueRange>& ranges_;
  bool symmetric_;
  std::map<std::string, std::pair<std::string, std::string>> constants_;
  std::vector<Node> nodes_;
  QuantizedActivations result_;
};

}  // namespace

QuantizedActivations quantize_activations(const Graph& graph, const QuantizationPlan& plan,
                                          const std::map<std::string, ValueRange>& ranges, bool symmetric) {
  return Insertion(graph, plan, ranges, symmetric).take();
}

}  // namespace pare
