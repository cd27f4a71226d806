// Layers that have nowhere to put an offset get a bias or an addition of zeros, so that a layer that is solved again
// can move its mean: before channels are analysed, as a bias that comes later would not be cut with its layer. Those
// that are still zero at the end go again.
#pragma once

#include "pare/graph.h"

namespace pare {

Graph with_offset_places(Graph graph);
Graph without_zero_offsets(Graph graph);

}  // namespace pare
