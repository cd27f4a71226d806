#include "pare/io/onnx/body.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <span>

#include "pare/error.h"
#include "pare/io/onnx/dtype.h"
#include "pare/io/onnx/read.h"
#include "pare/io/onnx/subgraph.h"

namespace pare {

namespace {

using Renamed = std::map<std::string, std::string>;

void rename(std::string& name, const Renamed& names) {
  if (const auto found = names.find(name); found != names.end()) name = found->second;
}

// ONNX has no two values of one name in a graph and its subgraphs, so that a name inside is that of outside.
void rename(onnx::GraphProto& graph, const Renamed& names) {
  for (auto& tensor : *graph.mutable_initializer()) rename(*tensor.mutable_name(), names);
  for (auto& tensor : *graph.mutable_sparse_initializer()) rename(*tensor.mutable_values()->mutable_name(), names);
  for (auto* list : {graph.mutable_input(), graph.mutable_output(), graph.mutable_value_info()})
    for (auto& info : *list) rename(*info.mutable_name(), names);
  for (auto& node : *graph.mutable_node()) {
    for (auto& input : *node.mutable_input()) rename(input, names);
    for (auto& output : *node.mutable_output()) rename(output, names);
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) rename(*attribute.mutable_g(), names);
      for (auto& body : *attribute.mutable_graphs()) rename(body, names);
    }
  }
}

std::string free_name(const std::string& base, const std::set<std::string>& taken) {
  std::string name = base;
  while (taken.contains(name)) name += "_";
  return name;
}

onnx::GraphProto body_proto(const Node& node, const std::string& attribute) {
  const auto found = node.attributes.find(attribute);
  const auto* opaque = found != node.attributes.end() ? std::get_if<OpaqueAttribute>(&found->second) : nullptr;
  onnx::AttributeProto proto;
  if (opaque == nullptr || !proto.ParseFromString(opaque->bytes) || !proto.has_g())
    throw Error(ErrorKind::format, describe(node), "has no subgraph '{}'", attribute);
  return proto.g();
}

Renamed names_after(const Node& node, const onnx::GraphProto& body, const std::set<std::string>& taken) {
  Renamed names;
  const auto add = [&](const std::string& name) {
    if (!name.empty()) names[name] = free_name(node.name + "/" + name, taken);
  };
  for (const auto& tensor : body.initializer()) add(tensor.name());
  for (const auto& tensor : body.sparse_initializer()) add(tensor.values().name());
  for (const auto& inner : body.node())
    for (const auto& output : inner.output()) add(output);
  return names;
}

}  // namespace

namespace {

void set_type(onnx::ValueInfoProto& info, at::ScalarType dtype) {
  info.clear_type();
  info.mutable_type()->mutable_tensor_type()->set_elem_type(onnx_type_of(dtype));
}

// A model of the subgraph alone, with the opsets of the graph around it.
onnx::ModelProto model_of_body(const Graph& graph, const Node& node, const std::string& attribute) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  auto* own = model.add_opset_import();
  own->set_version(graph.source_opset);
  for (const auto& [domain, version] : graph.domains) {
    auto* import = model.add_opset_import();
    import->set_domain(domain);
    import->set_version(version);
  }
  *model.mutable_graph() = body_proto(node, attribute);
  // Outputs of a subgraph need not say their type, and nothing that reads it asks.
  for (auto& output : *model.mutable_graph()->mutable_output())
    if (output.type().value_case() == onnx::TypeProto::VALUE_NOT_SET) set_type(output, at::kFloat);
  return model;
}

void add_input(onnx::ModelProto& model, const std::string& name, at::ScalarType dtype) {
  auto* info = model.mutable_graph()->add_input();
  info->set_name(name);
  set_type(*info, dtype);
}

bool says_a_type(const onnx::ValueInfoProto& info) {
  return info.type().value_case() != onnx::TypeProto::VALUE_NOT_SET &&
         !(info.type().has_tensor_type() && info.type().tensor_type().elem_type() == 0);
}

// Exporters leave out the types of what a subgraph gives, which nobody asks for; a graph of its own has to have them.
Graph read_model(onnx::ModelProto& model, const Node& node) {
  std::vector<std::string> made_up;
  for (auto& output : *model.mutable_graph()->mutable_output()) {
    if (says_a_type(output)) continue;
    set_type(output, at::kFloat);
    made_up.push_back(output.name());
  }
  const std::string bytes = model.SerializeAsString();
  Graph body = read_onnx_bytes(std::as_bytes(std::span(bytes.data(), bytes.size())), describe(node));
  for (const auto& name : made_up) body.stated.erase(name);
  return body;
}

}  // namespace

Graph read_body(const Graph& graph, const Node& node, const std::string& attribute,
                const std::map<std::string, at::ScalarType>& types, const std::set<std::string>& taken) {
  onnx::ModelProto model = model_of_body(graph, node, attribute);
  rename(*model.mutable_graph(), names_after(node, model.graph(), taken));
  for (const auto& name : node.captures) {
    const auto type = types.find(name);
    if (type == types.end()) throw Error(ErrorKind::unsupported, describe(node), "reads '{}' of unknown type", name);
    add_input(model, name, type->second);
  }
  Graph body = read_model(model, node);
  std::set<std::string> used = taken;
  for (auto& inner : body.nodes) used.insert(inner.name = free_name(node.name + "/" + inner.name, used));
  return body;
}

Graph read_typed_body(const Graph& graph, const Node& node, const std::string& attribute,
                      std::span<const at::ScalarType> types) {
  onnx::ModelProto model = model_of_body(graph, node, attribute);
  const auto own = static_cast<size_t>(model.graph().input_size());
  if (types.size() != own + node.captures.size())
    throw Error(ErrorKind::format, describe(node), "gives its subgraph '{}' {} values, expected {}", attribute,
                types.size() - std::min(types.size(), node.captures.size()), own);
  for (size_t i = 0; i < own; ++i) set_type(*model.mutable_graph()->mutable_input(static_cast<int>(i)), types[i]);
  for (size_t i = 0; i < node.captures.size(); ++i) add_input(model, node.captures[i], types[own + i]);
  return read_model(model, node);
}

std::set<std::string> all_names(const Graph& graph) {
  std::set<std::string> names;
  for (const auto& input : graph.inputs) names.insert(input.name);
  for (const auto& [name, tensor] : graph.tensors) names.insert(name);
  for (const auto& node : graph.nodes) {
    names.insert(node.name);
    names.insert(node.outputs.begin(), node.outputs.end());
    names.merge(content_of_subgraphs(node).names);
  }
  return names;
}

}  // namespace pare
