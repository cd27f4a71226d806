#include "pare/io/onnx/write.h"

#include <ATen/ATen.h>
#include <onnx/onnx_pb.h>

#include <cerrno>
#include <cstring>
#include <ostream>

#include "pare/core/file.h"
#include "pare/error.h"
#include "pare/io/onnx/attribute.h"
#include "pare/io/onnx/dtype.h"
#include "pare/io/onnx/four_bits.h"
#include "pare/io/onnx/lower.h"
#include "pare/io/onnx/subgraph.h"
#include "pare/io/onnx/tensor.h"
#include "pare/io/onnx/versions.h"
#include "pare/version.h"

namespace pare {

namespace {

constexpr size_t kLargestModel = 1'800'000'000;  // bytes of tensors; a protobuf message ends at 2 GiB
constexpr size_t kExternalFrom = 1024;           // smaller tensors stay in the model
constexpr int64_t kFirstIrWithFunctions = 8;
constexpr size_t kDataAlignment = 4096;  // so that the data can be memory-mapped

// What the file holds of a tensor, and how it is described there.
at::Tensor stored_bytes(const LoweredGraph& lowered, const std::string& name, const at::Tensor& tensor) {
  return lowered.four_bit.contains(name) ? pack_four_bits(tensor, name) : tensor.detach().cpu().contiguous();
}

onnx::TensorProto header_of(const LoweredGraph& lowered, const std::string& name, const at::Tensor& tensor) {
  onnx::TensorProto proto = tensor_header_to_proto(tensor);
  if (lowered.four_bit.contains(name)) proto.set_data_type(four_bit_type_of(tensor.scalar_type()));
  proto.set_name(name);
  return proto;
}

void fill_initializer(const LoweredGraph& lowered, const std::string& name, const at::Tensor& tensor,
                      onnx::TensorProto& proto) {
  proto = header_of(lowered, name, tensor);
  const at::Tensor bytes = stored_bytes(lowered, name, tensor);
  proto.set_raw_data(bytes.data_ptr(), bytes.nbytes());
}

size_t tensor_bytes(const Graph& graph) {
  size_t total = 0;
  for (const auto& [name, tensor] : graph.tensors) total += tensor.nbytes();
  return total;
}

void fill_value_info(const ValueInfo& info, onnx::ValueInfoProto& proto) {
  proto.set_name(info.name);
  auto& type = *proto.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx_type_of(info.dtype));
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

// Everything but the tensors.
onnx::ModelProto model_without_tensors(const LoweredGraph& lowered) {
  const Graph& graph = lowered.graph;
  onnx::ModelProto model;
  const auto functions = called_functions(graph);
  model.set_ir_version(std::max(ir_version_of(lowered.opset), functions.empty() ? 0 : kFirstIrWithFunctions));
  for (const auto& bytes : functions) model.add_functions()->ParseFromString(bytes);
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
  for (const auto& input : graph.inputs) fill_value_info(input, *proto.add_input());
  for (const auto& output : graph.outputs) fill_value_info(output, *proto.add_output());
  for (const auto& node : graph.nodes) fill_node(node, *proto.add_node());
  return model;
}

void add_tensors(const LoweredGraph& lowered, onnx::ModelProto& model) {
  for (const auto& [name, tensor] : lowered.graph.tensors) {
    fill_initializer(lowered, name, tensor, *model.mutable_graph()->add_initializer());
  }
}

void add_entry(onnx::TensorProto& proto, const std::string& key, const std::string& value) {
  auto& entry = *proto.add_external_data();
  entry.set_key(key);
  entry.set_value(value);
}

// Writes the large tensors to `out` and their places into the model.
void add_tensors_beside(const LoweredGraph& lowered, const std::string& location, onnx::ModelProto& model,
                        std::ostream& out) {
  size_t end = 0;
  for (const auto& [name, tensor] : lowered.graph.tensors) {
    auto& proto = *model.mutable_graph()->add_initializer();
    if (tensor.nbytes() < kExternalFrom) {
      fill_initializer(lowered, name, tensor, proto);
      continue;
    }
    const size_t offset = (end + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
    out << std::string(offset - end, '\0');
    const at::Tensor dense = stored_bytes(lowered, name, tensor);
    out.write(static_cast<const char*>(dense.data_ptr()), static_cast<std::streamsize>(dense.nbytes()));
    end = offset + dense.nbytes();
    proto = header_of(lowered, name, tensor);
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
                          [&](std::ostream& out) { add_tensors_beside(lowered, location, model, out); });
  } else {
    add_tensors(lowered, model);
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
  add_tensors(lowered, model);
  std::string bytes;
  if (!model.SerializeToString(&bytes)) throw Error(ErrorKind::unsupported, graph.name, "is too large for one message");
  return bytes;
}

}  // namespace pare
