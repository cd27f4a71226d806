// Samples of a data set.
#pragma once

#include <functional>
#include <vector>

#include "pare/data/dataset.h"
#include "pare/graph.h"
#include "pare/samples.h"  // IWYU pragma: export

namespace pare {

// The images of a data set, normalised, as the first input of the graph takes them: flat where it has two axes, in its
// type.
Samples samples_of(const Dataset& data, const Graph& graph);

// Samples 0 … count − 1, each got by itself as one(i), a tensor for each input with a first extent of 1: put together
// along that.
std::vector<at::Tensor> gathered(int64_t count, const std::function<std::vector<at::Tensor>(int64_t i)>& one);

// The next batches of a stream: as many as it takes for `least` samples in all (0: all of them).
Samples next_samples(const SampleStream& stream, int64_t least);

// Labelled samples of one input, in memory, as a data set: what training and measuring take. Their images are
// floating-point numbers as the network sees them; a sample of one axis is an image of one pixel. Error{usage} without
// labels, Error{shape} where there are several inputs or they are no images.
Dataset dataset_of(const Samples& samples);

// With the mirror images of a network's only input, where that takes colour images: twice the places to learn from.
Samples mirrored_colour(const Graph& graph, const Samples& samples);

}  // namespace pare
