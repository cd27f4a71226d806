// Where the window of a pool or a convolution stands: kernel, stride, dilation, padding and the number of places, axis by axis.
#pragma once

#include <cstdint>
#include <span>

#include "pare/ops/op.h"

namespace pare {

struct WindowAxis {
  int64_t input = 0;  // extent of the input
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t begin = 0;  // padding before and after, as the node asks for it
  int64_t end = 0;
  int64_t output = 0;  // places of the window
  bool ceil = false;   // a last window may run over the padded edge

  int64_t reach() const { return (kernel - 1) * dilation + 1; }               // extent of the window
  int64_t needed() const { return (output - 1) * stride + reach() - begin; }  // input extent + padding that it covers
};

// The window over the axes 2… of an input. Error{format} for attributes that make no sense, Error{shape} for a window
// that is larger than the padded input.
std::vector<WindowAxis> window_of(const Node& node, std::span<const int64_t> input_dims);
// The same with the kernel of a weight; the node may state it again in kernel_shape, but not differently.
std::vector<WindowAxis> window_of(const Node& node, std::span<const int64_t> input_dims, const Shape& kernel);

// One property of all axes, as ATen takes them.
Shape column(const std::vector<WindowAxis>& window, int64_t WindowAxis::*member);

}  // namespace pare
