// Layer norms that a file has written out (analysis/layer_norms.h) become one node each, LayerNormalization. Those that
// don't normalise the last axis alone stay as they are.
#pragma once

#include "pare/graph.h"

namespace pare {

Graph fuse_layer_norms(const Graph& graph);

}  // namespace pare
