// Exporters like to fix the batch: an input of 1x3x224x224, a Reshape to [1, 2048]. Where every image of a batch could
// as well be computed beside others, the graph is rewritten so that it takes any number of them.
#pragma once

#include <optional>

#include "pare/graph.h"

namespace pare {

// The graph with open first extents of its inputs and outputs, and with Reshape, Expand and Resize to constant shapes
// that let the batch through; the graph itself where it takes any number of images already. Nothing where that is not
// possible: a shape that does not say where the batch goes, or a result that on random images is not that of each image
// alone. The latter is tried for every graph that is rewritten.
std::optional<Graph> open_batch(const Graph& graph);

// What a method made of an opened graph, with the batch that the original declares again.
Graph close_batch(Graph graph, const Graph& original);

}  // namespace pare
