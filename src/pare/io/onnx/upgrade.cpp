#include "pare/io/onnx/upgrade.h"

#include <ATen/ATen.h>

#include <limits>

#include "pare/error.h"
#include "pare/io/onnx/import.h"
#include "pare/io/onnx/upgrade_rules.h"

namespace pare {

void set_input(Node& node, size_t index, std::string value) {
  if (node.inputs.size() <= index) node.inputs.resize(index + 1);
  node.inputs[index] = std::move(value);
}

namespace {

// An attribute of integers becomes the input `index`; an empty list means it was not given.
void integers_to_input(Node& node, UpgradeContext& context, const std::string& attribute, size_t index) {
  if (!node.has(attribute)) return;
  const auto values = node.integers(attribute);
  node.attributes.erase(attribute);
  if (!values.empty()) set_input(node, index, context.add_integers(node, attribute, values));
}

// An attribute of one float becomes a scalar input of the data's type.
void real_to_input(Node& node, UpgradeContext& context, const std::string& attribute, size_t index) {
  if (!node.has(attribute)) return;
  const auto value = at::scalar_tensor(node.real(attribute, 0), at::kFloat);
  node.attributes.erase(attribute);
  const std::string data = node.inputs.empty() ? "" : node.inputs[0];
  set_input(node, index, context.add_tensor(node, attribute, value.to(context.floating_dtype(data))));
}

void raise_axes(Node& node, UpgradeContext& context) { integers_to_input(node, context, "axes", 1); }

// The largest float, which exporters write for "no bound", is no bound.
void raise_clip(Node& node, UpgradeContext& context) {
  if (node.real("min", 0) <= std::numeric_limits<float>::lowest()) node.attributes.erase("min");
  if (node.real("max", 0) >= std::numeric_limits<float>::max()) node.attributes.erase("max");
  real_to_input(node, context, "min", 1);
  real_to_input(node, context, "max", 2);
}

void raise_pad(Node& node, UpgradeContext& context) {
  const auto pads = node.integers("pads");
  node.attributes.erase("pads");
  set_input(node, 1, context.add_integers(node, "pads", pads));
  if (node.real("value", 0) == 0) node.attributes.erase("value");
  real_to_input(node, context, "value", 2);
}

void raise_slice(Node& node, UpgradeContext& context) {
  integers_to_input(node, context, "starts", 1);
  integers_to_input(node, context, "ends", 2);
  integers_to_input(node, context, "axes", 3);
}

void raise_split(Node& node, UpgradeContext& context) { integers_to_input(node, context, "split", 1); }

// Without lengths the parts are equal; their number must be said since opset 18.
void raise_equal_split(Node& node, UpgradeContext&) {
  if (!node.has_input(1)) node.attributes.emplace("num_outputs", static_cast<int64_t>(node.outputs.size()));
}

// Removes the outputs from `first` on; Error{unsupported} when one of them is read.
void drop_outputs(Node& node, UpgradeContext& context, size_t first, std::string_view what) {
  for (size_t i = first; i < node.outputs.size(); ++i)
    if (!node.outputs[i].empty() && context.used.contains(node.outputs[i]))
      throw Error(ErrorKind::unsupported, describe(node), "{} '{}' of an old opset is read", what, node.outputs[i]);
  if (node.outputs.size() > first) node.outputs.resize(first);
}

// Before opset 10 the mask had the type of the data.
void raise_dropout_mask(Node& node, UpgradeContext& context) { drop_outputs(node, context, 1, "the mask"); }

void raise_dropout(Node& node, UpgradeContext& context) {
  if (!node.has("ratio")) return;
  const auto ratio = at::scalar_tensor(node.real("ratio", 0.5), at::kFloat);
  node.attributes.erase("ratio");
  set_input(node, 1, context.add_tensor(node, "ratio", ratio));
}

void raise_top_k(Node& node, UpgradeContext& context) {
  set_input(node, 1, context.add_integers(node, "k", {node.integer("k", 0)}));
  node.attributes.erase("k");
}

void raise_upsample_scales(Node& node, UpgradeContext& context) {
  if (!node.has("scales")) return;
  const auto scales = node.reals("scales");
  node.attributes.erase("scales");
  set_input(node, 1, context.add_tensor(node, "scales", at::tensor(scales, at::kDouble).to(at::kFloat)));
}

void rename_upsample(Node& node, UpgradeContext&) { node.op = "Resize"; }

// Upsample and Resize-10 map an output place to place/scale and round down.
void raise_resize(Node& node, UpgradeContext&) {
  if (node.inputs.size() == 2) node.inputs = {node.inputs[0], "", node.inputs[1]};
  if (node.text("mode", "nearest") == "bilinear") node.attributes["mode"] = std::string("linear");
  node.attributes["coordinate_transformation_mode"] = std::string("asymmetric");
  node.attributes["nearest_mode"] = std::string("floor");
}

// roi and scales that are there but empty, as opset 11 wanted them, are absent.
void drop_empty_inputs(Node& node, UpgradeContext& context) {
  for (size_t i = 1; i < node.inputs.size(); ++i)
    if (context.graph.is_constant(node.inputs[i]) && context.graph.tensor(node.inputs[i]).numel() == 0) {
      context.detached.insert(node.inputs[i]);
      node.inputs[i].clear();
    }
}

void raise_spatial(Node& node, UpgradeContext&) {
  if (node.integer("spatial", 1) == 0)
    throw Error(ErrorKind::unsupported, describe(node), "normalises each place by itself (spatial=0)");
  node.attributes.erase("spatial");
}

void raise_batch_norm(Node& node, UpgradeContext& context) { drop_outputs(node, context, 1, "the training output"); }

// Flattening at the last axis changes nothing, so it is not marked where that is known.
void raise_softmax(Node& node, UpgradeContext& context) {
  node.attributes.emplace("axis", int64_t{1});
  const int64_t axis = node.integer("axis", 1);
  const auto rank = node.inputs.empty() ? std::nullopt : context.rank(node.inputs[0]);
  if (axis != -1 && !(rank && axis == *rank - 1)) node.attributes["flatten"] = int64_t{1};
}

void rename_scatter(Node& node, UpgradeContext&) { node.op = "ScatterElements"; }

void mark_per_group(Node& node, UpgradeContext&) { node.attributes["per_group"] = int64_t{1}; }

void raise_roi_align(Node& node, UpgradeContext&) {
  node.attributes.emplace("coordinate_transformation_mode", std::string("output_half_pixel"));
}

void raise_grid_sample(Node& node, UpgradeContext&) {
  const std::string mode = node.text("mode", "bilinear");
  if (mode == "bilinear") node.attributes["mode"] = std::string("linear");
  if (mode == "bicubic") node.attributes["mode"] = std::string("cubic");
}

void raise_dft(Node& node, UpgradeContext& context) {
  const int64_t axis = node.integer("axis", 1);
  node.attributes.erase("axis");
  set_input(node, 2, context.add_tensor(node, "axis", at::scalar_tensor(axis, at::kLong)));
}

void drop_output_sequence(Node& node, UpgradeContext&) { node.attributes.erase("output_sequence"); }

void drop_broadcast(Node& node, UpgradeContext&) { node.attributes.erase("broadcast"); }

void refuse_scan(Node& node, UpgradeContext&) {
  throw Error(ErrorKind::unsupported, describe(node), "is a Scan of opset 8, which has a batch axis of its own");
}

constexpr int64_t kAlways = kCanonicalOpset + 1;

// Read from top to bottom: a node meets the rules of its operator (its new one, once renamed) in this order.
constexpr UpgradeRule kUpgrades[] = {
    {"LpPool", 2, raise_norm_order},
    {"GlobalLpPool", 2, raise_norm_order},
    {"LpNormalization", 2, raise_norm_order},
    {"Concat", 4, raise_concat},
    {"Reshape", 5, raise_reshape},
    {"Cast", 6, raise_cast},
    {"Tile", 6, raise_tile},
    {"Add", 7, raise_broadcast},
    {"Sub", 7, raise_broadcast},
    {"Mul", 7, raise_broadcast},
    {"Div", 7, raise_broadcast},
    {"Pow", 7, raise_broadcast},
    {"And", 7, raise_broadcast},
    {"Or", 7, raise_broadcast},
    {"Xor", 7, raise_broadcast},
    {"Greater", 7, raise_broadcast},
    {"Less", 7, raise_broadcast},
    {"Equal", 7, raise_broadcast},
    {"Gemm", 7, drop_broadcast},
    {"PRelu", 7, raise_prelu},
    {"RNN", 7, drop_output_sequence},
    {"GRU", 7, drop_output_sequence},
    {"LSTM", 7, drop_output_sequence},
    {"BatchNormalization", kAlways, raise_spatial},
    {"BatchNormalization", 14, raise_batch_norm},
    {"Scan", 9, refuse_scan},
    {"Dropout", 10, raise_dropout_mask},
    {"Dropout", 12, raise_dropout},
    {"Slice", 10, raise_slice},
    {"TopK", 10, raise_top_k},
    {"Upsample", 7, raise_upsample_1},
    {"Upsample", 9, raise_upsample_scales},
    {"Upsample", 10, rename_upsample},
    {"Resize", 11, raise_resize},
    {"Resize", kAlways, drop_empty_inputs},
    {"Scatter", kAlways, rename_scatter},
    {"Clip", 11, raise_clip},
    {"Pad", 2, raise_pad_1},
    {"Pad", 11, raise_pad},
    {"Softmax", 13, raise_softmax},
    {"LogSoftmax", 13, raise_softmax},
    {"Hardmax", 13, raise_softmax},
    {"Squeeze", 13, raise_axes},
    {"Unsqueeze", 13, raise_axes},
    {"Split", 13, raise_split},
    {"Split", 18, raise_equal_split},
    {"ReduceSum", 13, raise_axes},
    {"ReduceL1", 18, raise_axes},
    {"ReduceL2", 18, raise_axes},
    {"ReduceLogSum", 18, raise_axes},
    {"ReduceLogSumExp", 18, raise_axes},
    {"ReduceMax", 18, raise_axes},
    {"ReduceMean", 18, raise_axes},
    {"ReduceMin", 18, raise_axes},
    {"ReduceProd", 18, raise_axes},
    {"ReduceSumSquare", 18, raise_axes},
    {"RoiAlign", 16, raise_roi_align},
    {"GridSample", 20, raise_grid_sample},
    {"DFT", 20, raise_dft},
    {"GroupNormalization", 21, mark_per_group},
};

}  // namespace

bool is_marker(const Node& node, const std::string& attribute) {
  const bool softmax = node.op == "Softmax" || node.op == "LogSoftmax" || node.op == "Hardmax";
  return (softmax && attribute == "flatten") || (node.op == "GroupNormalization" && attribute == "per_group");
}

Graph upgrade(Graph graph, int64_t opset, const KnownTypes& types) {
  UpgradeContext context(graph, opset, types);
  std::vector<Node> raised;
  raised.reserve(graph.nodes.size());
  for (auto& node : graph.nodes) {
    if (node.domain.empty()) {
      drop_legacy_attributes(node, context);
      for (const auto& rule : kUpgrades)
        if (opset < rule.below && node.op == rule.op) rule.raise(node, context);
    }
    context.note_outputs(node);
    std::move(context.before.begin(), context.before.end(), std::back_inserter(raised));
    context.before.clear();
    raised.push_back(std::move(node));
  }
  graph.nodes = std::move(raised);
  drop_unread(context.graph, context.detached);
  return graph;
}

}  // namespace pare
