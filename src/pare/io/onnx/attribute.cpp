#include "pare/io/onnx/attribute.h"

#include "pare/error.h"
#include "pare/io/onnx/tensor.h"

namespace pare {

namespace {

using Kind = onnx::AttributeProto;

// Which field is set. The first files had no type, and a wrong type must not turn a list into nothing.
Kind::AttributeType kind_by_content(const onnx::AttributeProto& proto) {
  if (proto.has_f()) return Kind::FLOAT;
  if (proto.has_i()) return Kind::INT;
  if (proto.has_s()) return Kind::STRING;
  if (proto.has_t()) return Kind::TENSOR;
  if (proto.has_g()) return Kind::GRAPH;
  if (proto.has_sparse_tensor()) return Kind::SPARSE_TENSOR;
  if (proto.has_tp()) return Kind::TYPE_PROTO;
  if (proto.floats_size() > 0) return Kind::FLOATS;
  if (proto.ints_size() > 0) return Kind::INTS;
  if (proto.strings_size() > 0) return Kind::STRINGS;
  if (proto.tensors_size() > 0) return Kind::TENSORS;
  if (proto.graphs_size() > 0) return Kind::GRAPHS;
  if (proto.sparse_tensors_size() > 0) return Kind::SPARSE_TENSORS;
  if (proto.type_protos_size() > 0) return Kind::TYPE_PROTOS;
  return Kind::UNDEFINED;
}

}  // namespace

Attribute take_attribute(onnx::AttributeProto& proto, ExternalFiles& files, const std::string& where) {
  if (!proto.ref_attr_name().empty())
    throw Error(ErrorKind::format, where, "attribute '{}' refers to a function's attribute outside a function",
                proto.name());
  const auto content = kind_by_content(proto);
  const auto type = proto.type() == Kind::UNDEFINED ? content : proto.type();
  if (content != Kind::UNDEFINED && content != type)
    throw Error(ErrorKind::format, where, "attribute '{}' says it is {} and holds {}", proto.name(),
                Kind::AttributeType_Name(type), Kind::AttributeType_Name(content));
  switch (type) {
    case Kind::FLOAT: return static_cast<double>(proto.f());
    case Kind::INT: return proto.i();
    case Kind::STRING: return proto.s();
    case Kind::TENSOR: return take_tensor(*proto.mutable_t(), files, where + " attribute '" + proto.name() + "'");
    case Kind::FLOATS: return std::vector<double>(proto.floats().begin(), proto.floats().end());
    case Kind::INTS: return std::vector<int64_t>(proto.ints().begin(), proto.ints().end());
    case Kind::STRINGS: return std::vector<std::string>(proto.strings().begin(), proto.strings().end());
    case Kind::UNDEFINED:
      throw Error(ErrorKind::format, where, "attribute '{}' has neither type nor value", proto.name());
    default: return OpaqueAttribute{.type = type, .bytes = proto.SerializeAsString()};
  }
}

namespace {

// One overload per kind of attribute.
struct AttributeWriter {
  onnx::AttributeProto& proto;
  void operator()(int64_t value) { proto.set_type(Kind::INT), proto.set_i(value); }
  void operator()(double value) { proto.set_type(Kind::FLOAT), proto.set_f(static_cast<float>(value)); }
  void operator()(const std::string& value) { proto.set_type(Kind::STRING), proto.set_s(value); }
  void operator()(const std::vector<int64_t>& values) {
    proto.set_type(Kind::INTS);
    for (const int64_t value : values) proto.add_ints(value);
  }
  void operator()(const std::vector<double>& values) {
    proto.set_type(Kind::FLOATS);
    for (const double value : values) proto.add_floats(static_cast<float>(value));
  }
  void operator()(const std::vector<std::string>& values) {
    proto.set_type(Kind::STRINGS);
    for (const auto& value : values) proto.add_strings(value);
  }
  void operator()(const at::Tensor& value) {
    proto.set_type(Kind::TENSOR);
    *proto.mutable_t() = tensor_to_proto(value);
  }
  void operator()(const OpaqueAttribute& value) {
    if (!proto.ParseFromString(value.bytes))
      throw Error(ErrorKind::failed, "attribute '" + proto.name() + "'", "lost its bytes");
  }
};

}  // namespace

onnx::AttributeProto attribute_to_proto(const std::string& name, const Attribute& attribute) {
  onnx::AttributeProto proto;
  proto.set_name(name);
  std::visit(AttributeWriter{proto}, attribute);
  return proto;
}

}  // namespace pare
