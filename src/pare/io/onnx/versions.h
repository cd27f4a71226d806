// Which opset first has an operator in a form that can carry a canonical node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pare/graph.h"

namespace pare {

inline constexpr int64_t kOldestWritten = 11;

// Error{usage} for an opset that cannot be written: older than that, or newer than the canonical one.
void check_written_opset(int64_t opset);

// The smallest opset (at least 11) that lower() can write the node in.
int64_t needed_opset(const Node& node, const Graph& graph);

// Removes attributes that the opset does not have; they have their default value when the opset is the needed one.
void drop_newer_attributes(Node& node, int64_t opset);

// Does an operator change its form between two opsets, so that a node of one is not a node of the other?
bool form_differs(const std::string& op, int64_t opset, int64_t other);
// May a node of an opset have attributes, at their defaults as well, that an older one does not know?
bool may_have_newer_attributes(const std::string& op, int64_t opset, int64_t older);

// The integers of a constant input; nothing when it is absent or not constant.
std::optional<std::vector<int64_t>> constant_integers(const Node& node, size_t input, const Graph& graph);

// The rank of a value where the graph says it; nothing otherwise.
std::optional<int64_t> stated_rank(const std::string& value, const Graph& graph);

// ReduceL1, ReduceMax…: the operators with `axes` as their second input.
bool is_reduction(const std::string& op);

// The IR version that goes with an opset.
int64_t ir_version_of(int64_t opset);

}  // namespace pare
