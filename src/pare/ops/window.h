// The geometry of a sliding window, shared by convolutions and pools.
#pragma once

#include <vector>

#include "pare/ops/op.h"

namespace pare {

struct Window {
  std::vector<int64_t> kernel;
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  std::vector<int64_t> begin;  // padding before and after each spatial axis
  std::vector<int64_t> end;

  bool symmetric() const { return begin == end; }
  int64_t reach(size_t axis) const { return dilations[axis] * (kernel[axis] - 1) + 1; }  // extent with dilation
};

// Reads strides, dilations, pads and auto_pad of a node for the given kernel and spatial extents.
// Error{format} when a list has the wrong length or a value is not positive.
Window window_of(const Node& node, const std::vector<int64_t>& kernel, std::span<const int64_t> spatial);

// How many places the window has along an axis. Error{shape} when it does not fit.
int64_t window_count(const Window& window, size_t axis, int64_t extent, bool ceil_mode, const Node& node);

// (begin, end) pairs for at::constant_pad_nd, last axis first.
std::vector<int64_t> pad_list(const std::vector<int64_t>& begin, const std::vector<int64_t>& end);

}  // namespace pare
