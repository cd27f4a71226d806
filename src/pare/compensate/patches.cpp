#include "pare/compensate/patches.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "pare/calibrate/moments.h"

namespace pare {

Patches::Patches(const Node& node, const at::Tensor& weight, const at::Tensor& x) : x_(x) {
  if (node.op != "Conv") return;
  kernel_ = weight.sizes().vec();
  kernel_.erase(kernel_.begin(), kernel_.begin() + 2);
  window_ = window_of(node, x.sizes(), kernel_);
}

int64_t Patches::step_for(int64_t rows) const {
  int64_t step = 1;
  if (window_.size() != 2) return step;
  const auto places = [&] { return ((window_[0].output + step - 1) / step) * ((window_[1].output + step - 1) / step); };
  while (x_.size(0) * places() > rows && places() > 1) ++step;
  return x_.size(0) * places() >= rows || step == 1 ? step : step - 1;
}

std::pair<at::Tensor, at::Tensor> Patches::rows(int64_t begin, int64_t count, const at::Tensor& target, int64_t axis,
                                                int64_t step, int64_t phase) const {
  at::Tensor x = x_.narrow(0, begin, count);
  at::Tensor t = target.narrow(0, begin, count);
  if (window_.empty()) return {rows_of(x, -1), rows_of(t, axis)};
  x = at::constant_pad_nd(x, {window_[1].begin, window_[1].end, window_[0].begin, window_[0].end}, 0);
  const int64_t py = std::min(phase / step, window_[0].output - 1);
  const int64_t px = std::min(phase % step, window_[1].output - 1);
  x = x.slice(2, py * window_[0].stride).slice(3, px * window_[1].stride);
  t = t.slice(2, py, c10::nullopt, step).slice(3, px, c10::nullopt, step);
  const Shape stride = {window_[0].stride * step, window_[1].stride * step};
  const at::Tensor unfolded = at::im2col(x, kernel_, column(window_, &WindowAxis::dilation), {0, 0}, stride);
  return {unfolded.transpose(1, 2).reshape({-1, unfolded.size(1)}), rows_of(t, axis)};
}

}  // namespace pare
