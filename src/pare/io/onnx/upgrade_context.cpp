#include <ATen/ATen.h>

#include <algorithm>

#include "pare/io/onnx/upgrade_rules.h"

namespace pare {

namespace {

// Operators whose first output has the type and the rank of their first input.
constexpr std::string_view kKeepType[] = {
    "Relu",
    "LeakyRelu",
    "PRelu",
    "Elu",
    "Selu",
    "Sigmoid",
    "Tanh",
    "Clip",
    "Dropout",
    "Identity",
    "Softmax",
    "LogSoftmax",
    "MaxPool",
    "LpPool",
    "LRN",
    "Abs",
    "Neg",
    "Exp",
    "Log",
    "Sqrt",
    "AveragePool",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "Pad",
    "Concat",
    "Slice",
    "Split",
    "Transpose",
    "Softplus",
    "BatchNormalization",
    "InstanceNormalization",
    "Upsample",
    "Resize",
    "Conv",
    "ConvTranspose",
    "Sum",
    "Max",
    "Min",
};

constexpr std::string_view kBroadcast[] = {"Add", "Sub", "Mul", "Div", "Pow"};

}  // namespace

UpgradeContext::UpgradeContext(Graph& g, int64_t o, const KnownTypes& types) : graph(g), opset(o), names(g) {
  for (const auto& [name, info] : types) {
    dtypes.emplace(name, info.dtype);
    if (info.dims) ranks.emplace(name, static_cast<int64_t>(info.dims->size()));
  }
  for (const auto& output : graph.outputs) used.insert(output.name);
  for (const auto& node : graph.nodes) {
    used.insert(node.inputs.begin(), node.inputs.end());
    used.insert(node.captures.begin(), node.captures.end());
  }
}

std::optional<int64_t> UpgradeContext::rank(const std::string& value) const {
  if (const auto tensor = graph.tensors.find(value); tensor != graph.tensors.end()) return tensor->second.dim();
  if (const auto known = ranks.find(value); known != ranks.end()) return known->second;
  return std::nullopt;
}

at::ScalarType UpgradeContext::floating_dtype(const std::string& value) const {
  if (const auto tensor = graph.tensors.find(value); tensor != graph.tensors.end())
    return tensor->second.is_floating_point() ? tensor->second.scalar_type() : at::kFloat;
  const auto known = dtypes.find(value);
  return known != dtypes.end() && at::isFloatingType(known->second) ? known->second : at::kFloat;
}

std::string UpgradeContext::add_tensor(const Node& node, const std::string& suffix, at::Tensor tensor) {
  std::string name = names.fresh(node.name + "_" + suffix);
  graph.tensors.emplace(name, std::move(tensor));
  return name;
}

std::string UpgradeContext::add_integers(const Node& node, const std::string& suffix,
                                         const std::vector<int64_t>& values) {
  return add_tensor(node, suffix, at::tensor(values, at::kLong));
}

void UpgradeContext::note_outputs(const Node& node) {
  if (node.inputs.empty() || node.outputs.empty() || node.outputs[0].empty() || !node.domain.empty()) return;
  const std::string& from = node.inputs[0];
  const std::string& to = node.outputs[0];
  const bool keeps = std::ranges::find(kKeepType, node.op) != std::end(kKeepType);
  const bool broadcasts = std::ranges::find(kBroadcast, node.op) != std::end(kBroadcast);
  std::optional<int64_t> known = keeps ? rank(from) : std::nullopt;
  if ((node.op == "Conv" || node.op == "ConvTranspose") && node.has_input(1)) known = rank(node.inputs[1]);
  if (node.op == "Gemm" || node.op == "Flatten") known = 2;
  if (node.op == "Reshape" && node.has_input(1) && graph.is_constant(node.inputs[1]))
    known = graph.tensor(node.inputs[1]).numel();
  if (broadcasts && node.inputs.size() == 2)
    if (const auto a = rank(from), b = rank(node.inputs[1]); a && b) known = std::max(*a, *b);
  if (known) ranks.emplace(to, *known);
  if (!keeps && !broadcasts && node.op != "Gemm" && node.op != "Flatten" && node.op != "Reshape" && node.op != "MatMul")
    return;
  if (graph.is_constant(from)) dtypes.emplace(to, graph.tensor(from).scalar_type());
  if (const auto dtype = dtypes.find(from); dtype != dtypes.end()) dtypes.emplace(to, dtype->second);
}

}  // namespace pare
