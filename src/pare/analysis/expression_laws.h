// What operators do to a channel that they treat like every other: the laws of functions (channel_expressions.h).
#pragma once

#include <optional>

#include "pare/analysis/channel_expressions.h"

namespace pare {

// Of an operator that computes every element by itself; nothing for others. Identity and Dropout are `average`.
std::optional<Law> elementwise_law(const Graph& graph, const Node& node);

// Of an operator over windows, axes or positions of a channel; nothing for others.
std::optional<Law> window_law(const Graph& graph, const Node& node);

// Does a convolution pad its input with zeros?
bool pads_with_zeros(const Node& node);

}  // namespace pare
