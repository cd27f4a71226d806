#include "pare/io/onnx/read.h"

#include <c10/util/Exception.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/stubs/logging.h>
#include <onnx/onnx_pb.h>

#include <climits>
#include <unordered_set>

#include "pare/core/file.h"
#include "pare/core/memory.h"
#include "pare/core/text.h"
#include "pare/error.h"
#include "pare/io/onnx/attribute.h"
#include "pare/io/onnx/dtype.h"
#include "pare/io/onnx/import.h"
#include "pare/io/onnx/inline_functions.h"
#include "pare/io/onnx/newer_fields.h"
#include "pare/io/onnx/subgraph.h"
#include "pare/io/onnx/tensor.h"
#include "pare/io/onnx/upgrade.h"
#include "pare/ops/dtype.h"
#include "pare/ops/op.h"

namespace pare {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kOldestIr = 3;
constexpr int64_t kNewestIr = 14;
constexpr int kReadBlock = 1 << 18;

onnx::ModelProto parse_model(google::protobuf::io::ZeroCopyInputStream& stream, const std::string& file) {
  const google::protobuf::LogSilencer silence;  // the error says it
  onnx::ModelProto model;
  if (!model.ParseFromZeroCopyStream(&stream))
    throw Error(ErrorKind::format, file, "is not an ONNX model or is cut short");
  if (!model.has_graph()) throw Error(ErrorKind::format, file, "has no graph: it is not an ONNX model or is cut short");
  return model;
}

// The opset of ONNX's own operators; those of other domains go into `graph`.
int64_t read_versions(const onnx::ModelProto& model, Graph& graph, const std::string& file) {
  if (!model.has_ir_version()) throw Error(ErrorKind::format, file, "has no IR version");
  if (model.ir_version() < kOldestIr || model.ir_version() > kNewestIr)
    throw Error(ErrorKind::unsupported, file, "has IR version {}, pare reads {} to {}", model.ir_version(), kOldestIr,
                kNewestIr);
  std::map<std::string, int64_t> opsets;
  for (const auto& opset : model.opset_import())
    if (const auto [known, added] = opsets.emplace(plain_domain(opset.domain()), opset.version());
        !added && known->second != opset.version())
      throw Error(ErrorKind::format, file, "imports two opsets of the domain '{}'", opset.domain());
  const auto own = opsets.extract("");
  graph.domains = std::move(opsets);
  if (own.empty()) {
    for (const auto& node : model.graph().node())
      if (plain_domain(node.domain()).empty())
        throw Error(ErrorKind::format, file, "uses {} but does not say of which opset", node.op_type());
    return kCanonicalOpset;
  }
  if (own.mapped() < 1) throw Error(ErrorKind::format, file, "has opset {}", own.mapped());
  if (own.mapped() > kCanonicalOpset)
    throw Error(ErrorKind::unsupported, file, "has opset {}, pare reads up to {}", own.mapped(), kCanonicalOpset);
  return own.mapped();
}

[[noreturn]] void refuse_attribute(const Graph& graph, const Node& node, const std::string& name) {
  throw Error(ErrorKind::unsupported, describe(node), "has an attribute '{}', which {} of opset {} does not have", name,
              node.op, graph.source_opset);
}

void refuse_markers(const Graph& graph) {
  for (const auto& node : graph.nodes)
    for (const auto& [name, value] : node.attributes)
      if (node.domain.empty() && is_marker(node, name)) refuse_attribute(graph, node, name);
}

// What is said of values whose type no rule can give.
void keep_statements(Graph& graph, const KnownTypes& types) {
  for (const auto& node : graph.nodes) {
    if (find_op(node) != nullptr && !has_subgraph(node)) continue;
    for (const auto& output : node.outputs)
      if (const auto found = types.find(output); found != types.end()) graph.stated.insert(*found);
  }
}

// Attributes of a known operator that its canonical form does not have: raised from an older form they would be gone.
void check_attributes(const Graph& graph) {
  for (const auto& node : graph.nodes) {
    const OpDef* op = find_op(node);
    for (const auto& [name, value] : node.attributes)
      if (op != nullptr && !op->takes(name) && !is_marker(node, name)) refuse_attribute(graph, node, name);
  }
}

ValueInfo read_value_info(const onnx::ValueInfoProto& proto, const std::string& what) {
  const std::string where = what + " '" + proto.name() + "'";
  if (proto.name().empty()) throw Error(ErrorKind::format, what, "has no name");
  if (proto.type().value_case() == onnx::TypeProto::VALUE_NOT_SET) throw Error(ErrorKind::format, where, "has no type");
  if (!proto.type().has_tensor_type())
    throw Error(ErrorKind::unsupported, where, "is not a tensor but a sequence, map, optional or sparse tensor");
  const auto& type = proto.type().tensor_type();
  const auto dtype = scalar_type_of_onnx(type.elem_type());
  if (!dtype)
    throw Error(type.elem_type() == 0 ? ErrorKind::format : ErrorKind::unsupported, where,
                "has element type {}, which pare does not read", onnx_type_name(type.elem_type()));
  ValueInfo info{.name = proto.name(), .dtype = *dtype};
  if (!type.has_shape()) return info;
  info.dims.emplace();
  for (const auto& dim : type.shape().dim())
    info.dims->push_back(
        {.size = dim.has_dim_value() && dim.dim_value() >= 0 ? dim.dim_value() : -1, .symbol = dim.dim_param()});
  return info;
}

// What the file says about values inside the graph; what cannot be understood there does not matter.
KnownTypes read_known_types(const onnx::GraphProto& proto) {
  KnownTypes types;
  for (const auto* list : {&proto.value_info(), &proto.input(), &proto.output()})
    for (const auto& info : *list)
      if (!info.name().empty() && info.type().has_tensor_type() &&
          scalar_type_of_onnx(info.type().tensor_type().elem_type()))
        types.emplace(info.name(), read_value_info(info, "value"));
  return types;
}

void note_type(Graph& graph, const std::string& value, int32_t type) {
  if (carried_type(type)) graph.carried[value] = type;
}

void take_initializers(onnx::GraphProto& proto, Graph& graph, ExternalFiles& files) {
  const auto add = [&](const std::string& name, at::Tensor tensor) {
    if (name.empty()) throw Error(ErrorKind::format, "initialiser", "has no name");
    if (!graph.tensors.emplace(name, std::move(tensor)).second)
      throw Error(ErrorKind::format, "initialiser '" + name + "'", "exists already");
  };
  for (auto& tensor : *proto.mutable_initializer()) {
    note_type(graph, tensor.name(), tensor.data_type());
    add(tensor.name(), take_tensor(tensor, files, "initialiser '" + tensor.name() + "'"));
  }
  for (auto& sparse : *proto.mutable_sparse_initializer()) {
    const std::string name = sparse.values().name();
    note_type(graph, name, sparse.values().data_type());
    add(name, take_sparse_tensor(sparse, files, "initialiser '" + name + "'"));
  }
}

// A tensor in an attribute says its type by itself; only that of a constant is known by the value that it makes.
void note_attribute(Graph& graph, const Node& node, const onnx::AttributeProto& attribute) {
  const int32_t type = attribute.has_t() ? attribute.t().data_type() : attribute.sparse_tensor().values().data_type();
  if (!carried_type(type)) return;
  if (node.op != "Constant" || !node.domain.empty() || node.outputs.empty())
    throw Error(ErrorKind::unsupported, describe(node),
                "attribute '{}' has element type {}, which pare reads of constants", attribute.name(),
                onnx_type_name(type));
  note_type(graph, node.outputs[0], type);
}

Node take_node(onnx::NodeProto& proto, Graph& graph, ExternalFiles& files) {
  Node node{.name = proto.name(), .op = proto.op_type(), .domain = plain_domain(proto.domain())};
  node.inputs.assign(proto.input().begin(), proto.input().end());
  node.outputs.assign(proto.output().begin(), proto.output().end());
  const std::string where = describe(node);
  if (node.op.empty()) throw Error(ErrorKind::format, where, "has no operator");
  node.metadata = metadata_of(proto);
  for (auto& attribute : *proto.mutable_attribute()) {
    note_attribute(graph, node, attribute);
    const bool sparse_constant = node.op == "Constant" && node.domain.empty() && attribute.name() == "sparse_value";
    Attribute value = sparse_constant ? take_sparse_tensor(*attribute.mutable_sparse_tensor(), files, where)
                                      : take_attribute(attribute, files, where);
    if (!node.attributes.emplace(sparse_constant ? "value" : attribute.name(), std::move(value)).second)
      throw Error(ErrorKind::format, where, "has the attribute '{}' twice", attribute.name());
  }
  const auto content = content_of_subgraphs(node);
  if (content.external_data)
    throw Error(ErrorKind::unsupported, where, "has a subgraph with external data, which pare does not read");
  node.captures.assign(content.reads.begin(), content.reads.end());
  return node;
}

// Every node has a name of its own: unnamed ones are called after their operator and place.
void name_nodes(Graph& graph) {
  std::unordered_set<std::string> taken;
  for (const auto& node : graph.nodes)
    if (!node.name.empty()) taken.insert(node.name);
  std::unordered_set<std::string> given;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (!node.name.empty() && given.insert(node.name).second) continue;
    std::string base = (node.name.empty() ? node.op : node.name) + "_" + std::to_string(i);
    while (!taken.insert(base).second) base += "_";
    node.name = base;
    given.insert(base);
  }
}

Graph build_graph(onnx::ModelProto& model, const std::string& file, ExternalFiles& files) {
  Graph graph;
  auto& proto = *model.mutable_graph();
  graph.name = proto.name();
  inline_functions(model, file);
  graph.source_opset = read_versions(model, graph, file);
  for (const auto& entry : model.metadata_props()) graph.metadata[entry.key()] = entry.value();
  take_initializers(proto, graph, files);
  for (const auto& input : proto.input())
    if (!graph.is_constant(input.name())) graph.inputs.push_back(read_value_info(input, "graph input"));
  for (const auto& output : proto.output()) graph.outputs.push_back(read_value_info(output, "graph output"));
  for (const auto* infos : {&proto.input(), &proto.output()})
    for (const auto& info : *infos) note_type(graph, info.name(), info.type().tensor_type().elem_type());
  graph.nodes.reserve(proto.node_size());
  for (auto& node : *proto.mutable_node()) graph.nodes.push_back(take_node(node, graph, files));
  name_nodes(graph);
  check_made_once(graph);
  graph = absorb_constants(std::move(graph));
  graph = sort_topologically(std::move(graph));
  const int64_t opset = graph.source_opset;
  refuse_markers(graph);
  const KnownTypes types = read_known_types(proto);
  graph = upgrade(std::move(graph), opset, types);
  keep_statements(graph, types);
  check_attributes(graph);
  graph = bypass_identities(std::move(graph));
  check_captures(graph);
  verify(graph);
  return graph;
}

// Errors of the parts name the place in the file; this puts the file before it.
Graph read_model(google::protobuf::io::ZeroCopyInputStream& stream, const std::string& file,
                 const fs::path& directory) {
  onnx::ModelProto model = parse_model(stream, file);
  ExternalFiles files(directory);
  try {
    return build_graph(model, file, files);
  } catch (const Error& error) {
    const bool named = error.where().starts_with(file);
    throw Error(error.kind(), named ? error.where() : file + ": " + escape_controls(error.where()),
                escape_controls(error.message()));
  } catch (const OutOfMemory& refused) {
    throw Error(ErrorKind::memory, file, to_string(refused));
  } catch (const c10::Error&) {
    throw Error(ErrorKind::format, file, "holds a tensor that cannot exist");
  }
}

}  // namespace

Graph read_onnx(const fs::path& path) {
  const RegularFile file(path);
  if (file.size() > INT_MAX)
    throw Error(ErrorKind::format, path.string(),
                "has {} bytes, and a model file may have 2 GiB: the rest is external data", file.size());
  google::protobuf::io::FileInputStream stream(file.descriptor(), kReadBlock);
  return read_model(stream, path.string(), path.has_parent_path() ? path.parent_path() : fs::path("."));
}

Graph read_onnx_bytes(std::span<const std::byte> bytes, const std::string& name, const fs::path& directory) {
  if (bytes.size() > INT_MAX)
    throw Error(ErrorKind::format, name, "has {} bytes, and a model may have 2 GiB", bytes.size());
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  return read_model(stream, name, directory);
}

}  // namespace pare
