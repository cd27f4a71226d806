// Does a model classify? Where outputs are boxes and maps rather than the scores of classes, what they mean is measured
// by how far they agree with the original's (pare/compare.h).
#pragma once

#include "pare/graph.h"
#include "pare/samples/samples.h"

namespace pare {

// Does the model give one row of class scores for each of these samples? What can't be told before a run counts as yes.
bool gives_class_scores(const Graph& graph, const Samples& samples);

}  // namespace pare
