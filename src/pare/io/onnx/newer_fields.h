// Fields of ONNX's messages that came after libonnx 1.12, which keeps them as unknown ones.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <string>
#include <vector>

namespace pare {

// What exporters note of a node (IR 10).
std::map<std::string, std::string> metadata_of(const onnx::NodeProto& node);
void set_metadata(onnx::NodeProto& node, const std::map<std::string, std::string>& metadata);

// Which of several functions of one name (IR 10): empty for the only one.
std::string overload_of(const onnx::NodeProto& node);
std::string overload_of(const onnx::FunctionProto& function);

// Attributes of a function that have a default value (IR 9).
std::vector<onnx::AttributeProto> defaults_of(const onnx::FunctionProto& function);

}  // namespace pare
