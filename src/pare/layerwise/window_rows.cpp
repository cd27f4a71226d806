#include "pare/layerwise/window_rows.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "pare/error.h"

namespace pare {

namespace {

constexpr int64_t kBlock = 64;  // channels copied together, so that what they share of a cache line is still there

// Where the entries of the kernel lie from the window's first, and where the window's first is at each place.
struct Offsets {
  std::vector<int64_t> kernel = {0}, places = {0};
};

std::vector<int64_t> spread(const std::vector<int64_t>& outer, int64_t count, int64_t stride) {
  std::vector<int64_t> offsets;
  for (const int64_t offset : outer)
    for (int64_t i = 0; i < count; ++i) offsets.push_back(offset + i * stride);
  return offsets;
}

Offsets offsets_of(const at::Tensor& x, const std::vector<WindowAxis>& window) {
  Offsets offsets;
  for (size_t i = 0; i < window.size(); ++i) {
    const WindowAxis& axis = window[i];
    const auto extent = x.size(static_cast<int64_t>(i) + 2), stride = x.stride(static_cast<int64_t>(i) + 2);
    if ((axis.output - 1) * axis.stride + axis.reach() > extent)
      throw Error(ErrorKind::shape, "window", "{} places over a padded extent of {}", axis.output, extent);
    offsets.kernel = spread(offsets.kernel, axis.kernel, axis.dilation * stride);
    offsets.places = spread(offsets.places, axis.output, axis.stride * stride);
  }
  return offsets;
}

}  // namespace

at::Tensor window_rows(const at::Tensor& padded, const std::vector<WindowAxis>& window, const at::Tensor& places,
                       int64_t groups, const std::vector<int64_t>& order) {
  const Offsets offsets = offsets_of(padded, window);
  const auto kernel = static_cast<int64_t>(offsets.kernel.size());
  const int64_t images = order.empty() ? padded.size(0) : static_cast<int64_t>(order.size());
  const int64_t channels = padded.size(1), looked = places.size(1);
  const int64_t own = groups == 0 ? 0 : channels / groups, width = own * kernel;
  const bool together = kernel == 1 && groups == 1 && padded.stride(1) == 1;  // the channels of a place
  at::Tensor rows = at::empty({groups, images * looked, width}, padded.options());
  const at::Tensor chosen = places.contiguous();
  const int64_t* place = chosen.data_ptr<int64_t>();
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, padded.scalar_type(), "window_rows", [&] {
    const auto* from = padded.data_ptr<scalar_t>();
    auto* to = rows.data_ptr<scalar_t>();
    at::parallel_for(0, images, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t image = order.empty() ? i : order[static_cast<size_t>(i)];
        for (int64_t first = 0; first < channels; first += kBlock)
          for (int64_t p = 0; p < looked; ++p) {
            const int64_t row = i * looked + p;
            const scalar_t* start = from + image * padded.stride(0) + offsets.places[place[image * looked + p]];
            const int64_t last = std::min(first + kBlock, channels);
            if (together) {
              std::copy(start + first, start + last, to + row * width + first);
              continue;
            }
            for (int64_t c = first; c < last; ++c) {
              const scalar_t* patch = start + c * padded.stride(1);
              scalar_t* entry = to + (c / own * images * looked + row) * width + c % own * kernel;
              for (int64_t k = 0; k < kernel; ++k) entry[k] = patch[offsets.kernel[k]];
            }
          }
      }
    });
  });
  return rows;
}

}  // namespace pare
