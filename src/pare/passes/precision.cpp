#include "pare/passes/precision.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "pare/error.h"
#include "pare/ops/op.h"

namespace pare {

namespace {

constexpr int64_t kFloatCode = 1, kHalfCode = 10, kDoubleCode = 11, kBFloat16Code = 16;  // of onnx::TensorProto

bool is_half(at::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16; }

at::Tensor as_float(const at::Tensor& tensor) { return is_half(tensor.scalar_type()) ? tensor.to(at::kFloat) : tensor; }

// Attributes that hold a type: of Cast, of what draws or makes numbers.
bool names_type(const std::string& attribute) { return attribute == "to" || attribute == "dtype"; }

bool names_half(const std::string& name, const Attribute& attribute) {
  const auto* code = std::get_if<int64_t>(&attribute);
  return names_type(name) && code != nullptr && (*code == kHalfCode || *code == kBFloat16Code);
}

bool holds_half(const Attribute& attribute) {
  const auto* tensor = std::get_if<at::Tensor>(&attribute);
  return tensor != nullptr && is_half(tensor->scalar_type());
}

bool has_half(const Node& node) {
  return std::any_of(node.attributes.begin(), node.attributes.end(), [](const auto& entry) {
    return names_half(entry.first, entry.second) || holds_half(entry.second);
  });
}

}  // namespace

bool has_half_precision(const Graph& graph) {
  const auto half_info = [](const ValueInfo& info) { return is_half(info.dtype); };
  return std::any_of(graph.inputs.begin(), graph.inputs.end(), half_info) ||
         std::any_of(graph.outputs.begin(), graph.outputs.end(), half_info) ||
         std::any_of(graph.tensors.begin(), graph.tensors.end(),
                     [](const auto& entry) { return is_half(entry.second.scalar_type()); }) ||
         std::any_of(graph.nodes.begin(), graph.nodes.end(), has_half);
}

Graph widened(const Graph& original) {
  if (!has_half_precision(original)) return original;
  Graph graph = original;
  for (auto& [name, tensor] : graph.tensors) tensor = as_float(tensor);
  for (auto* infos : {&graph.inputs, &graph.outputs})
    for (auto& info : *infos)
      if (is_half(info.dtype)) info.dtype = at::kFloat;
  for (auto& node : graph.nodes)
    for (auto& [name, attribute] : node.attributes) {
      if (names_half(name, attribute)) attribute = kFloatCode;
      if (auto* tensor = std::get_if<at::Tensor>(&attribute)) *tensor = as_float(*tensor);
    }
  return graph;
}

namespace {

using Types = std::map<std::string, at::ScalarType>;

// The floating type that a node makes by itself; nothing where it takes that of its inputs.
std::optional<at::ScalarType> own_type(const Node& node) {
  for (const auto& [name, attribute] : node.attributes) {
    if (const auto* tensor = std::get_if<at::Tensor>(&attribute); tensor != nullptr && tensor->is_floating_point())
      return tensor->scalar_type();
    const auto* code = names_type(name) ? std::get_if<int64_t>(&attribute) : nullptr;
    if (code == nullptr) continue;
    if (*code == kHalfCode) return at::kHalf;
    if (*code == kBFloat16Code) return at::kBFloat16;
    if (*code == kFloatCode) return at::kFloat;
    if (*code == kDoubleCode) return at::kDouble;
  }
  return {};
}

// Does the node say that it makes something else than floating-point numbers?
bool makes_others(const Node& node) {
  for (const auto& [name, attribute] : node.attributes)
    if (names_type(name) && std::holds_alternative<int64_t>(attribute)) return !own_type(node);
  return false;
}

// Of values that are not floating-point numbers it says nothing that matters.
void add_outputs(const Node& node, Types& types) {
  if (makes_others(node)) return;
  std::optional<at::ScalarType> type = own_type(node);
  for (size_t i = traits_of(node).typed_like; i < node.inputs.size() && !type; ++i)
    if (const auto found = types.find(node.inputs[i]); found != types.end()) type = found->second;
  for (const auto& output : node.outputs)
    if (type && !output.empty()) types.emplace(output, *type);
}

Types types_of(const Graph& graph) {
  Types types;
  for (const auto& input : graph.inputs)
    if (at::isFloatingType(input.dtype)) types[input.name] = input.dtype;
  for (const auto& [name, tensor] : graph.tensors)
    if (tensor.is_floating_point()) types[name] = tensor.scalar_type();
  for (const auto& node : graph.nodes) add_outputs(node, types);
  return types;
}

at::Tensor fitted(const std::string& name, const at::Tensor& tensor, at::ScalarType dtype) {
  const at::Tensor result = tensor.to(dtype);
  if (!at::equal(at::isfinite(result), at::isfinite(tensor)))
    throw Error(ErrorKind::unsupported, name, "holds {}, too large for {}; convert the model to float32 first",
                at::nan_to_num(tensor.abs(), 0, 0, 0).max().item<double>(), at::toString(dtype));
  return result;
}

// The type of what the node computes with or makes, as far as the original says.
std::optional<at::ScalarType> company_of(const Node& node, const Types& types) {
  for (const auto* names : {&node.inputs, &node.outputs})
    for (const auto& name : *names)
      if (const auto found = types.find(name); found != types.end()) return found->second;
  return {};
}

}  // namespace

Graph narrowed_like(Graph graph, const Graph& original) {
  if (!has_half_precision(original)) return graph;
  Types types = types_of(original);
  const Usage made = usage_of(original);
  for (auto& node : graph.nodes) {
    if (const auto twin = made.producer.find(node.outputs.at(0)); twin != made.producer.end())
      for (const auto& [name, attribute] : original.nodes[twin->second].attributes)
        if ((names_half(name, attribute) || holds_half(attribute)) && original.nodes[twin->second].op == node.op)
          node.attributes[name] = attribute;
    if (const auto type = company_of(node, types))
      for (const auto& input : node.inputs)
        if (graph.is_constant(input) && graph.tensor(input).is_floating_point()) types.emplace(input, *type);
    add_outputs(node, types);
  }
  for (auto& [name, tensor] : graph.tensors)
    if (const auto type = types.find(name); type != types.end() && tensor.is_floating_point())
      tensor = fitted(name, tensor, type->second);
  for (auto* infos : {&graph.inputs, &graph.outputs})
    for (auto& info : *infos)
      for (const auto* originals : {&original.inputs, &original.outputs})
        for (const auto& other : *originals)
          if (other.name == info.name) info.dtype = other.dtype;
  return graph;
}

}  // namespace pare
