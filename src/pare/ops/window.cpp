#include "pare/ops/window.h"

namespace pare {

namespace {

std::vector<int64_t> positive_list(const Node& node, const std::string& name, size_t count) {
  auto list = node.integers(name, std::vector<int64_t>(count, 1));
  if (list.empty()) list.assign(count, 1);
  if (list.size() != count)
    throw Error(ErrorKind::format, describe(node), "{} has {} values, expected {}", name, list.size(), count);
  for (const int64_t value : list)
    if (value <= 0 || value > (int64_t{1} << 31))
      throw Error(ErrorKind::format, describe(node), "{} has the value {}", name, value);
  return list;
}

}  // namespace

Window window_of(const Node& node, const std::vector<int64_t>& kernel, std::span<const int64_t> spatial) {
  const size_t n = spatial.size();
  if (kernel.size() != n)
    throw Error(ErrorKind::shape, describe(node), "a kernel of {} axes meets {} spatial axes", kernel.size(), n);
  for (const int64_t extent : kernel)
    if (extent <= 0) throw Error(ErrorKind::shape, describe(node), "the kernel {} is empty", to_string(kernel));
  Window window{.kernel = kernel,
                .strides = positive_list(node, "strides", n),
                .dilations = positive_list(node, "dilations", n),
                .begin = std::vector<int64_t>(n, 0),
                .end = std::vector<int64_t>(n, 0)};
  const std::string auto_pad = node.text("auto_pad", "NOTSET");
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    for (size_t i = 0; i < n; ++i) {
      const int64_t out = (spatial[i] + window.strides[i] - 1) / window.strides[i];
      const int64_t total = std::max<int64_t>(0, (out - 1) * window.strides[i] + window.reach(i) - spatial[i]);
      window.begin[i] = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      window.end[i] = total - window.begin[i];
    }
  } else if (auto_pad != "VALID") {
    const auto pads = node.integers("pads", std::vector<int64_t>(2 * n, 0));
    if (pads.size() != 2 * n && !pads.empty())
      throw Error(ErrorKind::format, describe(node), "pads has {} values, expected {}", pads.size(), 2 * n);
    for (size_t i = 0; i < pads.size() / 2; ++i) {
      window.begin[i] = pads[i];
      window.end[i] = pads[n + i];
    }
    for (const int64_t pad : pads)
      if (pad < 0 || pad > (int64_t{1} << 31)) throw Error(ErrorKind::format, describe(node), "pads has the value {}", pad);
  }
  return window;
}

int64_t window_count(const Window& window, size_t axis, int64_t extent, bool ceil_mode, const Node& node) {
  const int64_t room = extent + window.begin[axis] + window.end[axis] - window.reach(axis);
  if (room < 0)
    throw Error(ErrorKind::shape, describe(node), "a window of {} does not fit into {} with padding", window.reach(axis),
                extent + window.begin[axis] + window.end[axis]);
  const int64_t stride = window.strides[axis];
  int64_t count = (ceil_mode ? room + stride - 1 : room) / stride + 1;
  // The last window must start inside the input or its left padding.
  if (ceil_mode && (count - 1) * stride >= extent + window.begin[axis]) --count;
  return count;
}

std::vector<int64_t> pad_list(const std::vector<int64_t>& begin, const std::vector<int64_t>& end) {
  std::vector<int64_t> list;
  for (size_t i = begin.size(); i-- > 0;) {
    list.push_back(begin[i]);
    list.push_back(end[i]);
  }
  return list;
}

}  // namespace pare
