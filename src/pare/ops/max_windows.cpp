#include "pare/ops/max_windows.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>

#include "pare/ops/lanes.h"

namespace pare {

namespace {

constexpr int64_t kMostPlaces = 64;

// Where the windows of an image are.
struct Layout {
  int64_t images, channels, height, width, rows, columns;  // rows × columns windows
  Tiling tiling;
  int64_t places() const { return tiling.height * tiling.width; }
  bool covers() const { return rows * tiling.height == height && columns * tiling.width == width; }
};

Layout layout_of(int64_t images, int64_t channels, int64_t height, int64_t width, const Tiling& tiling) {
  return {images, channels, height, width, height / tiling.height, width / tiling.width, tiling};
}

// Each kernel goes over one row of windows: `image` is its first pixel, the others its first window.
struct MaxKernel {
  const float* image;
  float* most;
  int32_t* place;

  [[gnu::always_inline]] void at(const int64_t* offsets, int64_t places, int64_t in, int64_t out) const {
    Float8 best = lanes(image + in + offsets[0]);
    Integer8 where = {};
    for (int64_t d = 1; d < places; ++d) {
      const Float8 x = lanes(image + in + offsets[d]);
      const Integer8 larger = (x > best) | (x != x);
      const auto index = static_cast<int32_t>(d);
      best = larger ? x : best;
      where = larger ? Integer8{index, index, index, index, index, index, index, index} : where;
    }
    lanes(most + out) = best;
    lanes(place + out) = where;
  }
};

// The value at each window's place.
struct GatherKernel {
  const float* image;
  float* value;
  const int32_t* place;

  [[gnu::always_inline]] void at(const int64_t* offsets, int64_t places, int64_t in, int64_t out) const {
    const Integer8 where = lanes(place + out);
    Float8 found = {};
    for (int64_t d = 0; d < places; ++d)
      found = where == static_cast<int32_t>(d) ? lanes(image + in + offsets[d]) : found;
    lanes(value + out) = found;
  }
};

// Each window's value at its place, zeros at the others.
struct ScatterKernel {
  float* image;
  const float* value;
  const int32_t* place;

  [[gnu::always_inline]] void at(const int64_t* offsets, int64_t places, int64_t in, int64_t out) const {
    const Integer8 where = lanes(place + out);
    const Float8 v = lanes(value + out);
    for (int64_t d = 0; d < places; ++d)
      lanes(image + in + offsets[d]) = where == static_cast<int32_t>(d) ? v : Float8{};
  }
};

template <typename Kernel>
struct RowKernel {
  const Kernel& kernel;
  const Layout& layout;

  [[gnu::always_inline]] void run() const {
    std::array<int64_t, kMostPlaces> offsets{};
    for (int64_t d = 0; d < layout.places(); ++d)
      offsets[static_cast<size_t>(d)] =
          (d / layout.tiling.width * layout.width + d % layout.tiling.width) * layout.channels;
    for (int64_t column = 0; column < layout.columns; ++column) {
      const int64_t in = column * layout.tiling.width * layout.channels;
      const int64_t out = column * layout.channels;
      over_channels(
          layout.channels, [&](int64_t c) __attribute__((always_inline)) {
            kernel.at(offsets.data(), layout.places(), in + c, out + c);
          });
    }
  }
};

// make(first element of the row in the image, in the windows)
template <typename Make>
void over_rows(const Layout& layout, const Make& make) {
  const int64_t grain = std::max<int64_t>(1, 16'384 / std::max<int64_t>(1, layout.columns * layout.channels));
  at::parallel_for(0, layout.images * layout.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t y = r / layout.rows * layout.height + r % layout.rows * layout.tiling.height;
      const auto kernel = make(y * layout.width * layout.channels, r * layout.columns * layout.channels);
      run_lanes(RowKernel<decltype(kernel)>{kernel, layout});
    }
  });
}

at::Tensor images(std::array<int64_t, 4> dims, at::ScalarType type) {
  return at::empty(dims, at::TensorOptions(type), at::MemoryFormat::ChannelsLast);
}

at::Tensor gathered(const at::Tensor& image, const at::Tensor& place, const Layout& layout) {
  const at::Tensor x = image.contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor value = images({layout.images, layout.channels, layout.rows, layout.columns}, at::kFloat);
  over_rows(layout, [&](int64_t in, int64_t out) {
    return GatherKernel{x.data_ptr<float>() + in, value.data_ptr<float>() + out, place.data_ptr<int32_t>() + out};
  });
  return value;
}

at::Tensor scattered(const at::Tensor& windows, const at::Tensor& place, const Layout& layout) {
  const at::Tensor value = windows.contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor image = images({layout.images, layout.channels, layout.height, layout.width}, at::kFloat);
  if (!layout.covers()) image.zero_();
  over_rows(layout, [&](int64_t in, int64_t out) {
    return ScatterKernel{image.data_ptr<float>() + in, value.data_ptr<float>() + out, place.data_ptr<int32_t>() + out};
  });
  return image;
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Layout kept_layout(const AutogradContext* context) {
  const auto sizes = context->saved_data.at("sizes").toIntVector();
  return layout_of(sizes[0], sizes[1], sizes[2], sizes[3], {sizes[4], sizes[5]});
}

void keep(AutogradContext* context, const at::Tensor& place, const Layout& layout) {
  context->save_for_backward({place});
  context->saved_data["sizes"] = std::vector<int64_t>{layout.images, layout.channels,      layout.height,
                                                      layout.width,  layout.tiling.height, layout.tiling.width};
}

// Gathering and scattering are linear, each the transpose of the other.
struct Gather : torch::autograd::Function<Gather> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& image, const at::Tensor& place,
                            const Layout& layout) {
    keep(context, place, layout);
    return gathered(image, place, layout);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients);
};

struct Scatter : torch::autograd::Function<Scatter> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& windows, const at::Tensor& place,
                            const Layout& layout) {
    keep(context, place, layout);
    return scattered(windows, place, layout);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor place = context->get_saved_variables()[0];
    return {Gather::apply(gradients[0], place, kept_layout(context)), at::Tensor(), at::Tensor()};
  }
};

variable_list Gather::backward(AutogradContext* context, const variable_list& gradients) {
  const at::Tensor place = context->get_saved_variables()[0];
  return {Scatter::apply(gradients[0], place, kept_layout(context)), at::Tensor(), at::Tensor()};
}

// The maxima, which are what is gathered from the places where they are.
struct Max : torch::autograd::Function<Max> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& image, const Layout& layout) {
    const std::array<int64_t, 4> dims = {layout.images, layout.channels, layout.rows, layout.columns};
    at::Tensor most = images(dims, at::kFloat);
    at::Tensor place = images(dims, at::kInt);
    over_rows(layout, [&](int64_t in, int64_t out) {
      return MaxKernel{image.data_ptr<float>() + in, most.data_ptr<float>() + out, place.data_ptr<int32_t>() + out};
    });
    keep(context, place, layout);
    return most;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor place = context->get_saved_variables()[0];
    return {Scatter::apply(gradients[0], place, kept_layout(context)), at::Tensor()};
  }
};

}  // namespace

bool suits_max_of_windows(const at::Tensor& x, const Tiling& tiling) {
  return x.dim() == 4 && x.scalar_type() == at::kFloat && x.size(1) >= kLanes && x.numel() > 0 &&
         x.is_contiguous(at::MemoryFormat::ChannelsLast) && tiling.height * tiling.width <= kMostPlaces &&
         x.size(2) >= tiling.height && x.size(3) >= tiling.width;
}

at::Tensor max_of_windows(const at::Tensor& x, const Tiling& tiling) {
  return Max::apply(x, layout_of(x.size(0), x.size(1), x.size(2), x.size(3), tiling));
}

}  // namespace pare
