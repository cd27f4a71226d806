#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "pare/ops/families.h"
#include "pare/ops/op.h"

namespace pare {

namespace {

struct Registry {
  std::vector<const OpDef*> list;
  std::unordered_map<std::string_view, const OpDef*> by_type;

  Registry() {
    for (const auto family :
         {activation_ops(), arithmetic_ops(),   convolution_ops(), matrix_ops(), normalization_ops(), pooling_ops(),
          reduction_ops(),  movement_ops(),     indexing_ops(),    resize_ops(), constant_ops(),      attention_ops(),
          recurrent_ops(),  control_flow_ops(), integer_ops(),     signal_ops(), regions_ops(),       contrib_ops(),
          legacy_ops(),     optimizer_ops(),    loss_ops(),        fused_ops()})
      for (const OpDef& op : family) {
        list.push_back(&op);
        by_type.emplace(op.type, &op);
      }
  }
};

const Registry& registry() {
  static const Registry instance;
  return instance;
}

}  // namespace

std::span<const OpDef* const> all_ops() { return registry().list; }

const OpDef* find_op(const Node& node) {
  const std::string name = node.domain.empty() ? node.op : node.domain + "." + node.op;
  const auto found = registry().by_type.find(name);
  return found == registry().by_type.end() ? nullptr : found->second;
}

const OpTraits& traits_of(const Node& node) {
  static const OpTraits none;
  const OpDef* op = find_op(node);
  return op == nullptr ? none : op->traits;
}

std::optional<LinearLayer> linear_layer(const Node& node, size_t weight, int64_t rank) {
  const LinearFunction linear = traits_of(node).linear;
  return linear == nullptr || !node.has_input(weight) ? std::nullopt : linear(node, weight, rank);
}

const OpDef& require_op(const Node& node) {
  const OpDef* op = find_op(node);
  if (op == nullptr) throw Error(ErrorKind::unsupported, describe(node), "pare has no rule for this operator");
  if (node.inputs.size() < op->min_inputs || node.inputs.size() > op->max_inputs)
    throw Error(ErrorKind::format, describe(node), "has {} inputs, expected {} to {}", node.inputs.size(),
                op->min_inputs, op->max_inputs);
  return *op;
}

}  // namespace pare
