#include "pare/io/onnx/import.h"

#include <ATen/ATen.h>

#include <set>

#include "pare/error.h"

namespace pare {

namespace {

template <typename T>
at::Tensor tensor_of(const std::vector<T>& values) {
  using Stored = std::conditional_t<std::is_same_v<T, double>, float, T>;
  const std::vector<Stored> stored(values.begin(), values.end());
  return at::tensor(stored, c10::CppTypeToScalarType<Stored>::value);
}

// The value of a Constant node, or nothing when it is of a kind that stays a node.
std::optional<at::Tensor> constant_value(const Node& node) {
  for (const auto& [name, attribute] : node.attributes) {
    if (const auto* tensor = std::get_if<at::Tensor>(&attribute); tensor != nullptr && name == "value") return *tensor;
    if (const auto* real = std::get_if<double>(&attribute); real != nullptr && name == "value_float")
      return at::scalar_tensor(static_cast<float>(*real), at::kFloat);
    if (const auto* integer = std::get_if<int64_t>(&attribute); integer != nullptr && name == "value_int")
      return at::scalar_tensor(*integer, at::kLong);
    if (const auto* reals = std::get_if<std::vector<double>>(&attribute); reals != nullptr && name == "value_floats")
      return tensor_of(*reals);
    if (const auto* integers = std::get_if<std::vector<int64_t>>(&attribute); integers && name == "value_ints")
      return tensor_of(*integers);
    if (name == "value_string" || name == "value_strings")
      throw Error(ErrorKind::unsupported, describe(node), "is a constant of strings, which pare does not read");
  }
  return std::nullopt;
}

}  // namespace

Graph absorb_constants(Graph graph) {
  std::erase_if(graph.nodes, [&](const Node& node) {
    if (node.op != "Constant" || !node.domain.empty()) return false;
    if (node.outputs.size() != 1 || node.outputs.front().empty())
      throw Error(ErrorKind::format, describe(node), "has {} outputs, expected 1", node.outputs.size());
    auto value = constant_value(node);
    if (!value) throw Error(ErrorKind::format, describe(node), "is a constant without a value");
    if (!graph.tensors.emplace(node.outputs.front(), std::move(*value)).second)
      throw Error(ErrorKind::format, describe(node), "makes '{}', which exists already", node.outputs.front());
    return true;
  });
  return graph;
}

Graph bypass_identities(Graph graph) {
  std::set<std::string> fixed;  // names that something outside the nodes' inputs refers to
  for (const auto& output : graph.outputs) fixed.insert(output.name);
  for (const auto& node : graph.nodes) fixed.insert(node.captures.begin(), node.captures.end());

  std::map<std::string, std::string> original;  // of a copied tensor
  std::erase_if(graph.nodes, [&](const Node& node) {
    if (node.op != "Identity" || !node.domain.empty() || node.inputs.size() != 1 || node.outputs.size() != 1)
      return false;
    const std::string& source = node.inputs.front();
    const std::string& copy = node.outputs.front();
    if (fixed.contains(copy) || copy.empty()) return false;
    const auto earlier = original.find(source);
    if (earlier == original.end() && !graph.is_constant(source)) return false;
    original.emplace(copy, earlier == original.end() ? source : earlier->second);
    return true;
  });
  for (auto& node : graph.nodes)
    for (auto& input : node.inputs)
      if (const auto alias = original.find(input); alias != original.end()) input = alias->second;
  return graph;
}

void check_made_once(const Graph& graph) {
  std::set<std::string_view> made;
  for (const auto& [name, tensor] : graph.tensors) made.insert(name);
  for (const auto& input : graph.inputs)
    if (!made.insert(input.name).second)
      throw Error(ErrorKind::format, "graph input '" + input.name + "'", "exists already");
  for (const auto& node : graph.nodes)
    for (const auto& output : node.outputs)
      if (!output.empty() && !made.insert(output).second)
        throw Error(ErrorKind::format, describe(node), "makes '{}', which exists already", output);
}

void check_captures(const Graph& graph) {
  std::set<std::string_view> made;
  for (const auto& [name, tensor] : graph.tensors) made.insert(name);
  for (const auto& input : graph.inputs) made.insert(input.name);
  for (const auto& node : graph.nodes) {
    for (const auto& capture : node.captures)
      if (!made.contains(capture))
        throw Error(ErrorKind::format, describe(node), "its subgraph reads '{}', which nothing makes", capture);
    made.insert(node.outputs.begin(), node.outputs.end());
  }
}

void drop_unread(Graph& graph, const std::set<std::string>& names) {
  std::set<std::string> read;
  for (const auto& output : graph.outputs) read.insert(output.name);
  for (const auto& node : graph.nodes) {
    read.insert(node.inputs.begin(), node.inputs.end());
    read.insert(node.captures.begin(), node.captures.end());
  }
  for (const auto& name : names)
    if (!read.contains(name)) graph.tensors.erase(name);
}

}  // namespace pare
