// Matrix products that have nowhere to put an offset get an addition of zeros, so that a layer that is solved again can
// move its mean; those that are still zero at the end go again.
#pragma once

#include "pare/graph.h"

namespace pare {

Graph with_offset_places(Graph graph);
Graph without_zero_offsets(Graph graph);

}  // namespace pare
