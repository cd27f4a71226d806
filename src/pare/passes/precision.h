// Half precision (float16, bfloat16) as single precision and back. Few CPU kernels know half precision, and least
// squares in it would not hold: methods work on the widened graph, and what they made is narrowed to the file's types.
#pragma once

#include "pare/graph.h"

namespace pare {

bool has_half_precision(const Graph& graph);

// Every tensor, input, output, conversion and attribute of half precision in float; the graph itself if there is none.
Graph widened(const Graph& graph);

// What a method made of widened(original), in the original's types: what has the name of an original tensor has its
// type, a new tensor that of the values it is computed with. Error{unsupported} when a number does not fit.
Graph narrowed_like(Graph graph, const Graph& original);

}  // namespace pare
