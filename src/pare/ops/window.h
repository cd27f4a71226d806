<<<<<<< HEAD
// The geometry of a sliding window, shared by convolutions and pools.
#pragma once

#include <vector>
=======
// Where a pooling window stands: kernel, stride, dilation, padding and the number of places, axis by axis.
#pragma once

#include <cstdint>
#include <span>
>>>>>>> ops

#include "pare/ops/op.h"

namespace pare {

<<<<<<< HEAD
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
=======
struct WindowAxis {
  int64_t input = 0;     // extent of the input
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t begin = 0;     // padding before and after, as the node asks for it
  int64_t end = 0;
  int64_t output = 0;    // places of the window
  bool ceil = false;     // a last window may run over the padded edge

  int64_t reach() const { return (kernel - 1) * dilation + 1; }                 // extent of the window
  int64_t needed() const { return (output - 1) * stride + reach() - begin; }    // input extent + padding that it covers
};

// The window over the axes 2… of an input. Error{format} for attributes that make no sense, Error{shape} for a window
// that is larger than the padded input.
std::vector<WindowAxis> window_of(const Node& node, std::span<const int64_t> input_dims);
>>>>>>> ops

}  // namespace pare
