// Raises the operators of a file to the canonical form, that of opset 28: what older opsets keep in attributes becomes
// inputs, renamed operators get their new name, changed defaults are spelled out.
//
// Two markers of pare's own stand for semantics that opset 28 no longer has; io/onnx/lower writes them out as standard
// operators:
//   Softmax, LogSoftmax, Hardmax   flatten=1    the tensor is first flattened to 2-D at `axis` (not the last one)
//   GroupNormalization             per_group=1  scale and bias have one element per group, not per channel
// No file may bring them along.
#pragma once

#include <map>
#include <string>

#include "pare/graph.h"

namespace pare {

inline constexpr int64_t kCanonicalOpset = 28;

// What a file says about values: its value_info, inputs and outputs.
using KnownTypes = std::map<std::string, ValueInfo>;

// Is the attribute one of pare's own markers?
bool is_marker(const Node& node, const std::string& attribute);

// `graph` holds the nodes as the file has them, sorted. Error{unsupported} names a node with semantics that cannot be
// kept.
Graph upgrade(Graph graph, int64_t opset, const KnownTypes& types);

}  // namespace pare
