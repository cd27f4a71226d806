// What a layer reads, as the rows of a regression: one for each place and image.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "pare/core/graph.h"
#include "pare/ops/window.h"

namespace pare {

// A layer's input as patches, some images at a time.
class Patches {
 public:
  Patches(const Node& node, const at::Tensor& weight, const at::Tensor& x);

  int64_t images() const { return x_.size(0); }

  // Every how many places along height and width are enough for `rows` rows.
  int64_t step_for(int64_t rows) const;

  // Rows [places, channels·kernel] of images [begin, begin + count), and the rows of `target` for the same places:
  // those at phase, phase + step, … of height and width.
  std::pair<at::Tensor, at::Tensor> rows(int64_t begin, int64_t count, const at::Tensor& target, int64_t axis,
                                         int64_t step, int64_t phase) const;

 private:
  at::Tensor x_;
  Shape kernel_;
  std::vector<WindowAxis> window_;
};

}  // namespace pare
