// Where inputs come from: a fixed number of samples in a fixed order, read a piece at a time, so that what runs over
// them needs memory for a piece only. With labels or without.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "pare/core/graph.h"
#include "pare/data/dataset.h"

namespace pare {

struct Samples {
  int64_t size = 0;
  // Samples [begin, end), one tensor for each input of the graph. May be called from several threads at once.
  std::function<std::vector<at::Tensor>(int64_t begin, int64_t end)> inputs;
  // What they are, in the same order: int64 [n] of classes, or uint8 [n, classes] of several labels; empty without
  // labels.
  std::function<at::Tensor(int64_t begin, int64_t end)> labels;

  bool labelled() const { return static_cast<bool>(labels); }
};

// Tensors in memory, one for each input, samples along their first axis.
Samples samples_of(std::vector<at::Tensor> inputs, at::Tensor labels = {});

// The images of a data set, normalised, as the first input of the graph takes them: flat where it has two axes, in its
// type.
Samples samples_of(const Dataset& data, const Graph& graph);

// Samples [begin, end) of others.
Samples part_of(const Samples& samples, int64_t begin, int64_t end);

// Each sample, followed by its mirror image, which is as likely. Every input of four axes is turned.
Samples with_mirrored(const Samples& samples);

}  // namespace pare
