// Forms that ended with opset 7 or before.
#include <ATen/ATen.h>

#include "pare/error.h"
#include "pare/io/onnx/dtype.h"
#include "pare/io/onnx/upgrade_rules.h"

namespace pare {

std::string with_trailing_ones(const std::string& value, int64_t count, const Node& node, UpgradeContext& context) {
  if (context.graph.is_constant(value)) {
    const at::Tensor& tensor = context.graph.tensor(value);
    auto dims = tensor.sizes().vec();
    dims.insert(dims.end(), count, 1);
    context.detached.insert(value);
    return context.add_tensor(node, "operand", tensor.reshape(dims));
  }
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < count; ++i) axes.push_back(*context.rank(value) + i);
  Node unsqueeze{.name = context.names.fresh(node.name + "_unsqueeze"), .op = "Unsqueeze"};
  unsqueeze.inputs = {value, context.add_integers(node, "axes", axes)};
  unsqueeze.outputs = {context.names.fresh(value + "_unsqueezed")};
  context.before.push_back(unsqueeze);
  return unsqueeze.outputs.front();
}

// broadcast=1 aligns B with the last extents of A, as today; with axis=k, B's first extent is A's extent k.
void raise_broadcast(Node& node, UpgradeContext& context) {
  const bool broadcast = node.integer("broadcast", 0) != 0;
  const bool aligned = node.has("axis");
  int64_t axis = node.integer("axis", 0);
  node.attributes.erase("broadcast");
  node.attributes.erase("axis");
  if (!broadcast || !aligned || node.inputs.size() != 2) return;
  const auto rank_a = context.rank(node.inputs[0]);
  const auto rank_b = context.rank(node.inputs[1]);
  if (!rank_a || !rank_b)
    throw Error(ErrorKind::unsupported, describe(node), "broadcasts along axis {} of a value of unknown rank", axis);
  if (axis < 0) axis += *rank_a;
  const int64_t trailing = *rank_a - axis - *rank_b;
  if (axis < 0 || trailing < 0)
    throw Error(ErrorKind::format, describe(node), "broadcasts {} extents along axis {} of {}", *rank_b, axis, *rank_a);
  if (trailing > 0) node.inputs[1] = with_trailing_ones(node.inputs[1], trailing, node, context);
}

// A slope per channel was a vector along axis 1; today it is aligned with the last axis.
void raise_prelu(Node& node, UpgradeContext& context) {
  if (node.inputs.size() != 2 || context.rank(node.inputs[1]) != 1) return;
  const std::string& slope = node.inputs[1];
  if (context.graph.is_constant(slope) && context.graph.tensor(slope).numel() == 1) return;
  const int64_t trailing = context.rank(node.inputs[0]).value_or(4) - 2;
  if (trailing > 0) node.inputs[1] = with_trailing_ones(slope, trailing, node, context);
}

void raise_cast(Node& node, UpgradeContext&) {
  const auto to = node.attributes.find("to");
  if (to == node.attributes.end() || !std::holds_alternative<std::string>(to->second)) return;
  const std::string name = node.text("to", "");
  const int32_t type = onnx_type_of_name(name);
  if (type == 0) throw Error(ErrorKind::format, describe(node), "casts to '{}', which is not an element type", name);
  to->second = static_cast<int64_t>(type);
}

// Tile(input, tiles, axis) repeats along one axis; today one number per axis is given.
void raise_tile(Node& node, UpgradeContext& context) {
  if (node.inputs.size() != 3) return;
  const auto rank = context.rank(node.inputs[0]);
  if (!rank || !context.graph.is_constant(node.inputs[1]) || !context.graph.is_constant(node.inputs[2]))
    throw Error(ErrorKind::unsupported, describe(node), "tiles along an axis that is not known");
  const at::Tensor tiles = context.graph.tensor(node.inputs[1]);
  const at::Tensor axis = context.graph.tensor(node.inputs[2]);
  if (tiles.numel() != 1 || axis.numel() != 1)
    throw Error(ErrorKind::format, describe(node), "has {} tiles and {} axes, expected one each", tiles.numel(),
                axis.numel());
  int64_t along = axis.reshape({}).to(at::kLong).item<int64_t>();
  if (along < 0) along += *rank;
  if (along < 0 || along >= *rank)
    throw Error(ErrorKind::format, describe(node), "tiles along axis {} of {}", along, *rank);
  std::vector<int64_t> repeats(*rank, 1);
  repeats[along] = tiles.reshape({}).to(at::kLong).item<int64_t>();
  context.detached.insert({node.inputs[1], node.inputs[2]});
  node.inputs = {node.inputs[0], context.add_integers(node, "repeats", repeats)};
}

void raise_concat(Node& node, UpgradeContext&) { node.attributes.emplace("axis", int64_t{1}); }

void raise_reshape(Node& node, UpgradeContext& context) {
  if (!node.has("shape")) return;
  set_input(node, 1, context.add_integers(node, "shape", node.integers("shape")));
  node.attributes.erase("shape");
}

void raise_pad_1(Node& node, UpgradeContext&) {
  if (auto paddings = node.attributes.extract("paddings")) {
    paddings.key() = "pads";
    node.attributes.insert(std::move(paddings));
  }
}

// p of LpPool, GlobalLpPool and LpNormalization was a float.
void raise_norm_order(Node& node, UpgradeContext&) {
  if (const auto p = node.attributes.find("p");
      p != node.attributes.end() && std::holds_alternative<double>(p->second)) {
    const double order = std::get<double>(p->second);
    if (order != 1.0 && order != 2.0)
      throw Error(ErrorKind::unsupported, describe(node), "has the norm order {}", order);
    p->second = static_cast<int64_t>(order);
  }
}

// consumed_inputs was a hint to run in place; is_test said what is now the caller's choice.
void drop_legacy_attributes(Node& node, UpgradeContext&) {
  node.attributes.erase("consumed_inputs");
  if (node.op == "Dropout" || node.op == "BatchNormalization") node.attributes.erase("is_test");
}

void raise_upsample_1(Node& node, UpgradeContext&) {
  if (!node.has("height_scale") && !node.has("width_scale")) return;
  node.attributes["scales"] = std::vector<double>{1, 1, node.real("height_scale", 1), node.real("width_scale", 1)};
  node.attributes.erase("height_scale");
  node.attributes.erase("width_scale");
}

}  // namespace pare
