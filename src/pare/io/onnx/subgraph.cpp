#include "pare/io/onnx/subgraph.h"

#include <onnx/onnx_pb.h>

#include "pare/error.h"

namespace pare {

namespace {

void collect_graph(const onnx::GraphProto& graph, SubgraphContent& content);

void collect_attribute(const onnx::AttributeProto& attribute, SubgraphContent& content) {
  if (attribute.t().data_location() == onnx::TensorProto::EXTERNAL) content.external_data = true;
  for (const auto& tensor : attribute.tensors())
    if (tensor.data_location() == onnx::TensorProto::EXTERNAL) content.external_data = true;
  if (attribute.has_g()) collect_graph(attribute.g(), content);
  for (const auto& graph : attribute.graphs()) collect_graph(graph, content);
}

void collect_node(const onnx::NodeProto& node, SubgraphContent& content) {
  content.operators.emplace(plain_domain(node.domain()), node.op_type());
  content.reads.insert(node.input().begin(), node.input().end());
  for (const auto& attribute : node.attribute()) collect_attribute(attribute, content);
}

onnx::FunctionProto parse_function(const std::string& bytes) {
  onnx::FunctionProto function;
  if (!function.ParseFromString(bytes)) throw Error(ErrorKind::format, "function", "cannot be read");
  return function;
}

// Adds what one graph reads from outside itself; `content.reads` of nested graphs are resolved against this one.
void collect_graph(const onnx::GraphProto& graph, SubgraphContent& content) {
  SubgraphContent inside;
  std::set<std::string> made;
  for (const auto& input : graph.input()) made.insert(input.name());
  for (const auto& tensor : graph.initializer()) {
    made.insert(tensor.name());
    if (tensor.data_location() == onnx::TensorProto::EXTERNAL) inside.external_data = true;
  }
  for (const auto& tensor : graph.sparse_initializer()) made.insert(tensor.values().name());
  for (const auto& node : graph.node()) {
    collect_node(node, inside);
    made.insert(node.output().begin(), node.output().end());
  }
  for (const auto& output : graph.output()) inside.reads.insert(output.name());
  content.names.insert(made.begin(), made.end());
  content.names.merge(inside.names);
  content.operators.merge(inside.operators);
  content.external_data = content.external_data || inside.external_data;
  for (const auto& name : inside.reads)
    if (!name.empty() && !made.contains(name)) content.reads.insert(name);
}

}  // namespace

SubgraphContent content_of_subgraphs(const Node& node) {
  SubgraphContent content;
  for (const auto& [name, attribute] : node.attributes) {
    const auto* opaque = std::get_if<OpaqueAttribute>(&attribute);
    if (opaque == nullptr) continue;
    onnx::AttributeProto proto;
    if (!proto.ParseFromString(opaque->bytes))
      throw Error(ErrorKind::format, describe(node), "attribute '{}' cannot be read", name);
    collect_attribute(proto, content);
  }
  return content;
}

SubgraphContent content_of_functions(const std::vector<std::string>& functions) {
  SubgraphContent content;
  for (const auto& bytes : functions) {
    const onnx::FunctionProto function = parse_function(bytes);
    for (const auto& node : function.node()) collect_node(node, content);
  }
  return content;
}

std::vector<std::string> called_functions(const Graph& graph) {
  if (graph.functions.empty()) return {};
  std::set<std::pair<std::string, std::string>> called;
  for (const auto& node : graph.nodes) called.merge(content_of_subgraphs(node).operators);
  std::vector<std::string> rest = graph.functions;
  std::vector<std::string> result;
  for (bool found = true; found;) {
    found = false;
    std::erase_if(rest, [&](const std::string& bytes) {
      const onnx::FunctionProto function = parse_function(bytes);
      if (!called.contains({plain_domain(function.domain()), function.name()})) return false;
      called.merge(content_of_functions({bytes}).operators);
      result.push_back(bytes);
      return found = true;
    });
  }
  return result;
}

}  // namespace pare
