// How far the outputs of a model are from those of another: the measure where there are no labels, or where outputs are
// boxes and maps rather than the scores of classes.
#pragma once

#include <cstdint>
#include <functional>

#include "pare/graph.h"
#include "pare/samples/samples.h"

namespace pare {

// Does the model give one row of class scores for each of these samples? What can't be told before a run counts as yes.
bool gives_class_scores(const Graph& graph, const Samples& samples);

// ‖z' − z‖ / ‖z‖ of the outputs z of the original and z' of the other, the mean over samples and over outputs that are
// floating-point numbers; 1 where their shapes differ.
double output_distance(const Graph& original, const Graph& other, const Samples& samples,
                       const std::function<void(int64_t done, int64_t all)>& progress = {});

}  // namespace pare
