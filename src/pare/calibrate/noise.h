// Images made from nothing: Gaussian noise with the correlations that natural images have.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "pare/graph.h"

namespace pare {

// white: independent pixels; smooth: white noise averaged over a square window; pink: amplitude 1/f of the spatial
// frequency f, the spectrum of photographs; leaves: shapes in front of one another (calibrate/leaves.h).
enum class NoiseKind { white, smooth, pink, leaves };

struct NoiseOptions {
  NoiseKind kind = NoiseKind::pink;
  int64_t count = 64;
  int64_t window = 5;     // smooth: pixels
  double exponent = 1.0;  // pink: amplitude 1/f^exponent
  double shared = 0.8;    // part of the variance that all channels of an image have in common
  uint64_t seed = 0;
};

// float32 [count, channels, height, width], every image of mean near 0, all together of variance 1.
at::Tensor noise_images(int64_t channels, int64_t height, int64_t width, const NoiseOptions& options);

// One tensor for every input of the graph, `count` samples each: images by noise_images where an input is [N, C, H, W]
// of floating point, a standard normal elsewhere, and integers from those that the tables indexed by them have rows
// for. Error{usage} when an extent other than the first is open, or when nothing says what integers an input may hold.
std::vector<at::Tensor> noise_inputs(const Graph& graph, const NoiseOptions& options);

}  // namespace pare
