// The single steps of io/onnx/upgrade: each takes a node from the form below some opset to the form of that opset.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pare/graph.h"
#include "pare/io/onnx/names.h"
#include "pare/io/onnx/upgrade.h"

namespace pare {

// What the rules need to know and may add, for one graph.
struct UpgradeContext {
  Graph& graph;
  int64_t opset;
  FreeNames names;
  std::set<std::string> used;  // values that anything reads
  std::map<std::string, at::ScalarType> dtypes;
  std::map<std::string, int64_t> ranks;
  std::vector<Node> before;        // nodes to go before the current one
  std::set<std::string> detached;  // tensors that a rule no longer reads

  UpgradeContext(Graph& g, int64_t o, const KnownTypes& types);

  std::optional<int64_t> rank(const std::string& value) const;
  at::ScalarType floating_dtype(const std::string& value) const;  // float32 when it is not known
  // A new tensor of the graph, called after the node.
  std::string add_tensor(const Node& node, const std::string& suffix, at::Tensor tensor);
  std::string add_integers(const Node& node, const std::string& suffix, const std::vector<int64_t>& values);
  // Notes type and rank of the node's outputs where they follow from its inputs.
  void note_outputs(const Node& node);
};

using UpgradeFunction = void (*)(Node& node, UpgradeContext& context);

struct UpgradeRule {
  std::string_view op;
  int64_t below;  // applies to nodes of opsets below this
  UpgradeFunction raise;
};

// Puts `value` at input `index`, with absent inputs before it.
void set_input(Node& node, size_t index, std::string value);

// A value's trailing side gets `count` new extents of 1: a reshaped tensor, or an Unsqueeze before the node.
std::string with_trailing_ones(const std::string& value, int64_t count, const Node& node, UpgradeContext& context);

// Rules of opsets 1 to 6, where operands were broadcast by an `axis` (upgrade_legacy.cpp).
void raise_broadcast(Node& node, UpgradeContext& context);
void raise_prelu(Node& node, UpgradeContext& context);
void raise_cast(Node& node, UpgradeContext& context);
void raise_tile(Node& node, UpgradeContext& context);
void raise_concat(Node& node, UpgradeContext& context);
void raise_reshape(Node& node, UpgradeContext& context);
void raise_pad_1(Node& node, UpgradeContext& context);
void raise_norm_order(Node& node, UpgradeContext& context);
void drop_legacy_attributes(Node& node, UpgradeContext& context);
void raise_upsample_1(Node& node, UpgradeContext& context);

}  // namespace pare
