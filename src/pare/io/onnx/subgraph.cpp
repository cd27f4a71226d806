#include "pare/io/onnx/subgraph.h"

#include <onnx/onnx_pb.h>

#include <algorithm>

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

bool has_subgraph(const Node& node) {
  return std::ranges::any_of(node.attributes,
                             [](const auto& entry) { return std::holds_alternative<OpaqueAttribute>(entry.second); });
}

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

}  // namespace pare
