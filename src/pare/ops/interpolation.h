// Interpolation along one axis, as ONNX's Resize defines it: which inputs an output is made of, and with what weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace pare {

struct InterpolationOptions {
  std::string mode = "nearest";  // nearest, linear, cubic
  std::string coordinates = "half_pixel";
  std::string nearest = "round_prefer_floor";
  double cubic_a = -0.75;
  bool exclude_outside = false;  // weights outside the input are dropped and the others scaled up
  bool antialias = false;        // the filter grows with the step when shrinking
};

struct ResizedAxis {
  int64_t input = 0;
  int64_t output = 0;
  double scale = 1;      // output / input, as the node gives it
  double roi_begin = 0;  // of tf_crop_and_resize, as fractions of the axis
  double roi_end = 1;
};

// output[i] = sum over k of weight[k][i] · input[index[k][i]]
struct Taps {
  std::vector<std::vector<int64_t>> index;
  std::vector<std::vector<double>> weight;
  std::vector<bool> outside;  // is output i beyond the edge of the input (tf_crop_and_resize)?
};

// The place in the input that output i comes from.
double source_coordinate(const InterpolationOptions& options, const ResizedAxis& axis, int64_t i);
Taps interpolation_taps(const InterpolationOptions& options, const ResizedAxis& axis);

// The taps applied along an axis of a tensor; gradients flow.
at::Tensor interpolate(const at::Tensor& x, int64_t axis, const Taps& taps);

}  // namespace pare
