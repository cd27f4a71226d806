// Which value of a network holds the class scores. A pure function; any thread.
#pragma once

#include <string>

#include "pare/core/graph.h"

namespace pare {

// The first output, or what a final Softmax, LogSoftmax or Sigmoid reads. Losses, thresholds and attributions are those
// of scores; the network itself keeps its last operator. Error{shape} when it has no output.
std::string score_value(const Graph& graph);

}  // namespace pare
