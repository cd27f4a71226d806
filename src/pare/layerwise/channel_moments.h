// Means and variances of channels on the way of graphs that run side by side (layerwise/side_by_side.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "pare/calibrate/moments.h"
#include "pare/layerwise/side_by_side.h"

namespace pare {

// What is wanted of a piece: values [N, C, …], or what is made of them. Called from several threads.
using ChannelValues = std::function<std::vector<at::Tensor>(const BothValues&)>;

// Of all ranks' samples, in front of a node of the compressed graph: one of each of these values.
std::vector<ChannelMoments> channel_moments(SideBySide& graphs, size_t node, const ChannelValues& values,
                                            ProcessGroup& ranks);

}  // namespace pare
