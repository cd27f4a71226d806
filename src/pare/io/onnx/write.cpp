#include "pare/io/onnx/write.h"

#include <ATen/ATen.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ostream>

#include "pare/core/file.h"
#include "pare/error.h"
#include "pare/io/onnx/attribute.h"
#include "pare/io/onnx/dtype.h"
#include "pare/io/onnx/lower.h"
#include "pare/io/onnx/newer_fields.h"
#include "pare/io/onnx/tensor.h"
#include "pare/io/onnx/versions.h"
#include "pare/version.h"

namespace pare {

namespace {

constexpr size_t kLargestModel = 1'800'000'000;  // bytes of tensors; a protobuf message ends at 2 GiB
constexpr size_t kExternalFrom = 1024;           // smaller tensors stay in the model
constexpr size_t kDataAlignment = 4096;          // so that the data can be memory-mapped

size_t tensor_bytes(const Graph& graph) {
  size_t total = 0;
  for (const auto& [name, tensor] : graph.tensors) total += tensor.nbytes();
  return total;
}

// ONNX's number of the type that another carries for the value; 0 where it is the tensor's own.
int32_t carried_type_of(const Graph& graph, const std::string& name) {
  const auto found = graph.carried.find(name);
  return found == graph.carried.end() ? 0 : found->second;
}

void fill_value_info(const Graph& graph, const ValueInfo& info, onnx::ValueInfoProto& proto) {
  proto.set_name(info.name);
  auto& type = *proto.mutable_type()->mutable_tensor_type();
  const int32_t carried = carried_type_of(graph, info.name);
  type.set_elem_type(carried != 0 ? carried : onnx_type_of(info.dtype));
  if (!info.dims) return;
  auto& shape = *type.mutable_shape();
  for (const auto& dim : *info.dims) {
    auto& extent = *shape.add_dim();
    if (dim.fixed() && !dim.assumed)
      extent.set_dim_value(dim.size);
    else if (!dim.symbol.empty())
      extent.set_dim_param(dim.symbol);
  }
}

void fill_node(const Node& node, onnx::NodeProto& proto) {
  proto.set_name(node.name);
  proto.set_op_type(node.op);
  proto.set_domain(node.domain);
  for (const auto& input : node.inputs) proto.add_input(input);
  for (const auto& output : node.outputs) proto.add_output(output);
  for (const auto& [name, attribute] : node.attributes) *proto.add_attribute() = attribute_to_proto(name, attribute);
  set_metadata(proto, node.metadata);
}

void fill_opsets(const Graph& graph, int64_t opset, onnx::ModelProto& model) {
  auto domains = graph.domains;
  domains[""] = opset;
  for (const auto& node : graph.nodes) domains.emplace(node.domain, 1);
  for (const auto& [domain, version] : domains) {
    auto& import = *model.add_opset_import();
    import.set_domain(domain);
    import.set_version(version);
  }
}

bool is_output(const Graph& graph, const std::string& value) {
  return std::ranges::any_of(graph.outputs, [&](const ValueInfo& info) { return info.name == value; });
}

// Everything but the tensors.
onnx::ModelProto model_without_tensors(const LoweredGraph& lowered) {
  const Graph& graph = lowered.graph;
  onnx::ModelProto model;
  model.set_ir_version(ir_version_of(lowered.opset));
  model.set_producer_name("pare");
  model.set_producer_version(kVersion);
  fill_opsets(graph, lowered.opset, model);
  for (const auto& [key, value] : graph.metadata) {
    auto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  auto& proto = *model.mutable_graph();
  proto.set_name(graph.name.empty() ? "graph" : graph.name);
  for (const auto& input : graph.inputs) fill_value_info(graph, input, *proto.add_input());
  for (const auto& output : graph.outputs) fill_value_info(graph, output, *proto.add_output());
  for (const auto& node : graph.nodes) {
    fill_node(node, *proto.add_node());
    for (const auto& output : node.outputs)
      if (const auto found = graph.stated.find(output); found != graph.stated.end() && !is_output(graph, output))
        fill_value_info(graph, found->second, *proto.add_value_info());
  }
  return model;
}

void add_tensors(const Graph& graph, onnx::ModelProto& model) {
  for (const auto& [name, tensor] : graph.tensors) {
    auto& proto = *model.mutable_graph()->add_initializer();
    proto = tensor_to_proto(tensor, carried_type_of(graph, name));
    proto.set_name(name);
  }
}

void add_entry(onnx::TensorProto& proto, const std::string& key, const std::string& value) {
  auto& entry = *proto.add_external_data();
  entry.set_key(key);
  entry.set_value(value);
}

// Writes the large tensors to `out` and their places into the model.
void add_tensors_beside(const Graph& graph, const std::string& location, onnx::ModelProto& model, std::ostream& out) {
  size_t end = 0;
  for (const auto& [name, tensor] : graph.tensors) {
    auto& proto = *model.mutable_graph()->add_initializer();
    const int32_t carried = carried_type_of(graph, name);
    if (tensor.nbytes() < kExternalFrom || carried != 0) {
      proto = tensor_to_proto(tensor, carried);
      proto.set_name(name);
      continue;
    }
    const size_t offset = (end + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
    out << std::string(offset - end, '\0');
    const at::Tensor dense = tensor.detach().cpu().contiguous();
    out.write(static_cast<const char*>(dense.data_ptr()), static_cast<std::streamsize>(dense.nbytes()));
    end = offset + dense.nbytes();
    proto = tensor_header_to_proto(tensor);
    proto.set_name(name);
    proto.set_data_location(onnx::TensorProto::EXTERNAL);
    add_entry(proto, "location", location);
    add_entry(proto, "offset", std::to_string(offset));
    add_entry(proto, "length", std::to_string(dense.nbytes()));
  }
}

}  // namespace

WriteReport write_onnx(const Graph& graph, const std::filesystem::path& path, const WriteOptions& options) {
  const LoweredGraph lowered = lower(graph, options.opset);
  onnx::ModelProto model = model_without_tensors(lowered);
  if (options.external_data || tensor_bytes(lowered.graph) > kLargestModel) {
    const std::string location = path.filename().string() + ".data";
    write_file_atomically(path.parent_path() / location,
                          [&](std::ostream& out) { add_tensors_beside(lowered.graph, location, model, out); });
  } else {
    add_tensors(lowered.graph, model);
  }
  write_file_atomically(path, [&](std::ostream& out) {
    errno = 0;
    if (!model.SerializeToOstream(&out))
      throw Error(ErrorKind::file, path.string(), "could not be written whole: {}",
                  errno != 0 ? std::strerror(errno) : "the message is too large");
  });
  return {.opset = lowered.opset, .raised_by = lowered.raised_by};
}

std::string to_onnx_bytes(const Graph& graph, const WriteOptions& options, WriteReport* report) {
  if (tensor_bytes(graph) > kLargestModel)
    throw Error(ErrorKind::unsupported, graph.name, "has {} bytes of tensors, too many for one message",
                tensor_bytes(graph));
  const LoweredGraph lowered = lower(graph, options.opset);
  if (report != nullptr) *report = {.opset = lowered.opset, .raised_by = lowered.raised_by};
  onnx::ModelProto model = model_without_tensors(lowered);
  add_tensors(lowered.graph, model);
  std::string bytes;
  if (!model.SerializeToString(&bytes)) throw Error(ErrorKind::unsupported, graph.name, "is too large for one message");
  return bytes;
}

}  // namespace pare
