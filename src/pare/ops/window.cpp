#include "pare/ops/window.h"

#include <algorithm>

namespace pare {

namespace {

// An attribute with one number per spatial axis (or two, for pads) within [low, 2^31).
Shape spatial_attribute(const Node& node, const char* name, size_t count, int64_t otherwise, int64_t low) {
  Shape list = node.integers(name);
  if (list.empty()) list.assign(count, otherwise);
  if (list.size() != count)
    throw Error(ErrorKind::format, describe(node), "{} has {} entries, expected {}", name, list.size(), count);
  for (const int64_t entry : list)
    if (entry < low || entry > INT32_MAX)
      throw Error(ErrorKind::format, describe(node), "{} is {}, expected at least {}", name, to_string(list), low);
  return list;
}

// Places of the window when the padding is given. A window that would start in the padding at the end is not taken.
int64_t places(const WindowAxis& w) {
  const int64_t room = w.input + w.begin + w.end - w.reach();
  if (room < 0) return 0;
  if (!w.ceil) return room / w.stride + 1;
  const int64_t last = (room + w.stride - 1) / w.stride;
  return last * w.stride >= w.input + w.begin ? last : last + 1;
}

void pad_to_same(WindowAxis& w, bool more_at_end) {
  w.output = (w.input + w.stride - 1) / w.stride;
  const int64_t total = std::max<int64_t>((w.output - 1) * w.stride + w.reach() - w.input, 0);
  w.begin = more_at_end ? total / 2 : total - total / 2;
  w.end = total - w.begin;
}

}  // namespace

Shape column(const std::vector<WindowAxis>& window, int64_t WindowAxis::*member) {
  Shape list;
  for (const auto& w : window) list.push_back(w.*member);
  return list;
}

std::vector<WindowAxis> window_of(const Node& node, std::span<const int64_t> input_dims) {
  if (!node.has("kernel_shape")) throw Error(ErrorKind::format, describe(node), "has no kernel_shape");
  const size_t count = input_dims.size() < 3 ? node.integers("kernel_shape").size() : input_dims.size() - 2;
  return window_of(node, input_dims, spatial_attribute(node, "kernel_shape", count, 1, 1));
}

std::vector<WindowAxis> window_of(const Node& node, std::span<const int64_t> input_dims, const Shape& kernel) {
  if (input_dims.size() < 3)
    throw Error(ErrorKind::shape, describe(node), "{} has no spatial axes", to_string(input_dims));
  const size_t count = input_dims.size() - 2;
  const std::string auto_pad = node.text("auto_pad", "NOTSET");
  if (auto_pad != "NOTSET" && auto_pad != "VALID" && auto_pad != "SAME_UPPER" && auto_pad != "SAME_LOWER" &&
      !auto_pad.empty())
    throw Error(ErrorKind::format, describe(node), "auto_pad is '{}'", auto_pad);
  const bool same = auto_pad.starts_with("SAME");
  if (kernel.size() != count || (node.has("kernel_shape") && spatial_attribute(node, "kernel_shape", count, 1, 1) != kernel))
    throw Error(ErrorKind::shape, describe(node), "a kernel of {} does not fit {}", to_string(kernel), to_string(input_dims));
  for (const int64_t extent : kernel)
    if (extent < 1) throw Error(ErrorKind::shape, describe(node), "the kernel {} is empty", to_string(kernel));
  const Shape stride = spatial_attribute(node, "strides", count, 1, 1);
  const Shape dilation = spatial_attribute(node, "dilations", count, 1, 1);
  const Shape pads =
      same || auto_pad == "VALID" ? Shape(2 * count, 0) : spatial_attribute(node, "pads", 2 * count, 0, 0);
  std::vector<WindowAxis> window;
  for (size_t i = 0; i < count; ++i) {
    WindowAxis w{.input = input_dims[i + 2],
                 .kernel = kernel[i],
                 .stride = stride[i],
                 .dilation = dilation[i],
                 .begin = pads[i],
                 .end = pads[i + count]};
    w.ceil = node.integer("ceil_mode", 0) != 0 && !same && auto_pad != "VALID";
    if (same)
      pad_to_same(w, auto_pad == "SAME_UPPER");
    else
      w.output = places(w);
    if (w.input < 1 || w.output < 1)
      throw Error(ErrorKind::shape, describe(node), "a window of {} does not fit the padded extent {} of {}", w.reach(),
                  w.input + w.begin + w.end, to_string(input_dims));
    window.push_back(w);
  }
  return window;
}

}  // namespace pare
