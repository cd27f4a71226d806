#include "pare/io/onnx/subgraph.h"

#include <onnx/onnx_pb.h>

#include <algorithm>

#include "pare/error.h"
#include "pare/io/onnx/dtype.h"

namespace pare {

namespace {

void collect_graph(const onnx::GraphProto& graph, SubgraphContent& content);

// Elements that are there, whatever the extents claim.
int64_t elements_of(const onnx::TensorProto& tensor, int64_t size) {
  if (tensor.has_raw_data()) return static_cast<int64_t>(tensor.raw_data().size()) / size;
  return static_cast<int64_t>(tensor.float_data_size()) + tensor.double_data_size() + tensor.int32_data_size() +
         tensor.int64_data_size() + tensor.uint64_data_size();
}

void collect_tensor(const onnx::TensorProto& tensor, SubgraphContent& content) {
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) content.external_data = true;
  const auto dtype = scalar_type_of_onnx(tensor.data_type());
  const auto size = dtype ? static_cast<int64_t>(c10::elementSize(*dtype)) : 1;
  const int64_t elements = elements_of(tensor, size);
  content.bytes += elements * size;
  if (dtype && c10::isFloatingType(*dtype) && tensor.dims_size() > 0) content.parameters += elements;
}

void collect_attribute(const onnx::AttributeProto& attribute, SubgraphContent& content) {
  if (attribute.has_t()) collect_tensor(attribute.t(), content);
  for (const auto& tensor : attribute.tensors()) collect_tensor(tensor, content);
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
    collect_tensor(tensor, inside);
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
  content.parameters += inside.parameters;
  content.bytes += inside.bytes;
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
