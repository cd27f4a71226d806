// Small ONNX models built with the protobuf classes, and comparison of graphs.
#pragma once

#include <ATen/ATen.h>
#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

#include "pare/graph.h"
#include "pare/io/onnx/read.h"

namespace pare::testing_onnx {

using Names = std::vector<std::string>;

inline onnx::ModelProto make_model(int64_t opset, int64_t ir = 8) {
  onnx::ModelProto model;
  model.set_ir_version(ir);
  auto* import = model.add_opset_import();
  import->set_domain("");
  import->set_version(opset);
  model.mutable_graph()->set_name("test");
  return model;
}

inline onnx::ValueInfoProto make_value(const std::string& name, const std::vector<int64_t>& dims,
                                       int32_t type = onnx::TensorProto::FLOAT) {
  onnx::ValueInfoProto value;
  value.set_name(name);
  auto* tensor = value.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape();
  for (const int64_t dim : dims) tensor->mutable_shape()->add_dim()->set_dim_value(dim);
  return value;
}

inline void add_input(onnx::ModelProto& m, const std::string& name, const std::vector<int64_t>& dims,
                      int32_t type = onnx::TensorProto::FLOAT) {
  *m.mutable_graph()->add_input() = make_value(name, dims, type);
}

inline void add_output(onnx::ModelProto& m, const std::string& name, const std::vector<int64_t>& dims,
                       int32_t type = onnx::TensorProto::FLOAT) {
  *m.mutable_graph()->add_output() = make_value(name, dims, type);
}

inline onnx::NodeProto make_node(const std::string& op, const Names& inputs, const Names& outputs) {
  onnx::NodeProto node;
  node.set_op_type(op);
  node.set_name(op + "_node");
  for (const auto& input : inputs) node.add_input(input);
  for (const auto& output : outputs) node.add_output(output);
  return node;
}

inline onnx::NodeProto& add_node(onnx::ModelProto& m, const std::string& op, const Names& inputs,
                                 const Names& outputs) {
  return *m.mutable_graph()->add_node() = make_node(op, inputs, outputs);
}

inline onnx::AttributeProto& attribute(onnx::NodeProto& node, const std::string& name) {
  auto* a = node.add_attribute();
  a->set_name(name);
  return *a;
}
inline void set(onnx::NodeProto& node, const std::string& name, int64_t value) {
  auto& a = attribute(node, name);
  a.set_type(onnx::AttributeProto::INT), a.set_i(value);
}
inline void set(onnx::NodeProto& node, const std::string& name, float value) {
  auto& a = attribute(node, name);
  a.set_type(onnx::AttributeProto::FLOAT), a.set_f(value);
}
inline void set(onnx::NodeProto& node, const std::string& name, const char* value) {
  auto& a = attribute(node, name);
  a.set_type(onnx::AttributeProto::STRING), a.set_s(value);
}
inline void set(onnx::NodeProto& node, const std::string& name, const std::vector<int64_t>& values) {
  auto& a = attribute(node, name);
  a.set_type(onnx::AttributeProto::INTS);
  for (const int64_t value : values) a.add_ints(value);
}
inline void set(onnx::NodeProto& node, const std::string& name, const std::vector<float>& values) {
  auto& a = attribute(node, name);
  a.set_type(onnx::AttributeProto::FLOATS);
  for (const float value : values) a.add_floats(value);
}

inline void fill_floats(onnx::TensorProto& tensor, const std::string& name, const std::vector<int64_t>& dims) {
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  int64_t count = 1;
  for (const int64_t dim : dims) tensor.add_dims(dim), count *= dim;
  for (int64_t i = 0; i < count; ++i) tensor.add_float_data(static_cast<float>(i));
}
inline onnx::TensorProto& add_floats(onnx::ModelProto& m, const std::string& name, const std::vector<int64_t>& dims) {
  auto& tensor = *m.mutable_graph()->add_initializer();
  fill_floats(tensor, name, dims);
  return tensor;
}
inline void add_ints(onnx::ModelProto& m, const std::string& name, const std::vector<int64_t>& values) {
  auto& tensor = *m.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(static_cast<int64_t>(values.size()));
  for (const int64_t value : values) tensor.add_int64_data(value);
}

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline Graph read(const onnx::ModelProto& model) {
  return read_onnx_bytes(bytes_of(model.SerializeAsString()), "test.onnx");
}

inline std::vector<int64_t> integers(const Graph& graph, const std::string& name) {
  const at::Tensor t = graph.tensor(name).to(at::kLong).contiguous();
  return {t.data_ptr<int64_t>(), t.data_ptr<int64_t>() + t.numel()};
}

}  // namespace pare::testing_onnx
