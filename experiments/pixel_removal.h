// Images without some of their pixels: for remove and retrain.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "pare/data/dataset.h"

namespace pare {

// uint8 [channels]: the mean colour.
at::Tensor mean_color(const Dataset& data);

// Holes filled from around them: float32 [N, C, H, W] → the same, where `kept` (bool [N, H, W]) is false the mean of
// kept pixels near by, taken from the finest of ever coarser copies that has some (0 where nothing is kept at all).
at::Tensor filled_from_neighbours(const at::Tensor& images, const at::Tensor& kept);

// What takes the place of removed pixels: the mean colour of some data, or what is around them with noise as strong as
// that data has from pixel to pixel, so that the holes themselves say little about what was there.
class PixelFill {
 public:
  // `kind`: "mean" or "neighbours".
  PixelFill(const std::string& kind, const Dataset& data);

  // The first ⌊part · pixels⌋ of each image's order, int32 [N, pixels], replaced.
  Dataset without(const Dataset& data, const at::Tensor& order, double part) const;

 private:
  void fill_holes(at::Tensor images, const at::Tensor& kept, int64_t first) const;

  at::Tensor color_;
  at::Tensor noise_;  // float32 [channels, 1, 1]: its deviation; undefined: the colour fills
};

}  // namespace pare
