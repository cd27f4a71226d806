// What integers an input of a graph may hold: those that the tables it is looked up in have rows for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pare/graph.h"

namespace pare {

// The smallest extent that Gather and OneHot nodes index by the value, or by what is only moved, joined or cast from
// it. Nothing where none does.
std::optional<int64_t> index_limit(const Graph& graph, const std::string& value);

}  // namespace pare
