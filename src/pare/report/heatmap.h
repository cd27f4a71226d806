// Attribution maps as pictures.
//
// The colour map goes from dark violet over red to pale yellow with lightness that rises evenly in OKLab, so that equal
// steps of relevance look equal, in grey and to colour-blind eyes as well.
//
// Pure functions; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace pare {

// [H, W] to float32 [H, W] in 0…1: the positive part over the value that all but the highest half per cent of the
// pixels stay below, so that a few sharp peaks do not hide the rest. An all-zero map stays zero, a NaN becomes zero.
at::Tensor normalized_map(const at::Tensor& map);

// uint8 [3, H, W] of values in 0…1.
at::Tensor colorize(const at::Tensor& values);

// The map, normalised and scaled bilinearly to the image (uint8 [1 or 3, H, W]), over the image in grey: the more
// relevant, the more colour.
at::Tensor overlay_map(const at::Tensor& image, const at::Tensor& map);

// Pictures [3, H, W] of one size side by side on white, enlarged by whole numbers to about 224 pixels where they are
// smaller.
at::Tensor side_by_side(const std::vector<at::Tensor>& pictures);

// uint8 [3, H, W] of a gray or RGB image.
at::Tensor as_rgb(const at::Tensor& image);

}  // namespace pare
