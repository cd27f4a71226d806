#include "pare/io/onnx/newer_fields.h"

#include <google/protobuf/unknown_field_set.h>

namespace pare {

namespace {

using google::protobuf::UnknownField;

constexpr int kNodeOverload = 8, kNodeMetadata = 9, kFunctionDefaults = 11, kFunctionOverload = 13;

// The messages or texts of a field, in order.
template <typename Message>
std::vector<std::string> field_of(const Message& message, int number) {
  std::vector<std::string> result;
  const auto& fields = message.unknown_fields();
  for (int i = 0; i < fields.field_count(); ++i)
    if (fields.field(i).number() == number && fields.field(i).type() == UnknownField::TYPE_LENGTH_DELIMITED)
      result.push_back(fields.field(i).length_delimited());
  return result;
}

template <typename Message>
std::string text_of(const Message& message, int number) {
  const auto values = field_of(message, number);
  return values.empty() ? "" : values.back();
}

}  // namespace

std::map<std::string, std::string> metadata_of(const onnx::NodeProto& node) {
  std::map<std::string, std::string> metadata;
  for (const auto& bytes : field_of(node, kNodeMetadata))
    if (onnx::StringStringEntryProto entry; entry.ParseFromString(bytes)) metadata[entry.key()] = entry.value();
  return metadata;
}

void set_metadata(onnx::NodeProto& node, const std::map<std::string, std::string>& metadata) {
  for (const auto& [key, value] : metadata) {
    onnx::StringStringEntryProto entry;
    entry.set_key(key);
    entry.set_value(value);
    node.mutable_unknown_fields()->AddLengthDelimited(kNodeMetadata, entry.SerializeAsString());
  }
}

std::string overload_of(const onnx::NodeProto& node) { return text_of(node, kNodeOverload); }
std::string overload_of(const onnx::FunctionProto& function) { return text_of(function, kFunctionOverload); }

std::vector<onnx::AttributeProto> defaults_of(const onnx::FunctionProto& function) {
  std::vector<onnx::AttributeProto> result;
  for (const auto& bytes : field_of(function, kFunctionDefaults))
    if (onnx::AttributeProto attribute; attribute.ParseFromString(bytes)) result.push_back(attribute);
  return result;
}

}  // namespace pare
