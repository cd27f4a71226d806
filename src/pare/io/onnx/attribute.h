// onnx::AttributeProto to Attribute and back. Internal to io/onnx: it brings in the protobuf classes.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>

#include "pare/graph.h"
#include "pare/io/onnx/external.h"

namespace pare {

// The attribute's value, its tensor data moved out of `proto`. Subgraphs, types and lists of tensors stay opaque.
// `where` names the node in errors.
Attribute take_attribute(onnx::AttributeProto& proto, ExternalFiles& files, const std::string& where);

onnx::AttributeProto attribute_to_proto(const std::string& name, const Attribute& attribute);

}  // namespace pare
