// How a picture of any size becomes what a network takes: one rule, whether pictures are given one by one, lie in
// folders or in a development kit.
//
//   stretch    both sides to the network's, whatever becomes of the proportions
//   crop       the largest box in the centre that has the network's proportions, scaled
//   imagenet   the convention of networks for ImageNet: scaled until the shorter side is 256/224 of the network's, then
//              the network's extents out of the centre (torchvision's Resize(256) and CenterCrop(224), to the bit)
//
// Pure functions; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace pare {

enum class ImageFit { stretch, crop, imagenet, letterbox };

std::vector<std::string> image_fit_names();
std::string to_string(ImageFit fit);
ImageFit image_fit_of(const std::string& name);  // Error{usage} for any other name

// Of a network that does not say how it was trained: `imagenet` where it takes colour pictures of 128 pixels a side or
// more, because networks of that size are published with that convention; `crop` below, where images come at the size
// they are used at and nothing may be cut off.
ImageFit usual_fit(int64_t channels, int64_t height, int64_t width);

struct PictureSize {
  int64_t height = 0, width = 0;
};

// uint8 [C, H, W] to the size.
at::Tensor fit_image(const at::Tensor& image, PictureSize size, ImageFit fit);
// uint8 [H, W] likewise, each place taking the pixel under its centre; what letterbox adds is void (255).
at::Tensor fit_mask(const at::Tensor& mask, PictureSize size, ImageFit fit);

// float [boxes, 4 or more], (left, top, right, bottom) in pixels of an image of `from`: where fit_image puts them, cut
// off where it cuts the image off. What nothing is left of has no width or no height.
at::Tensor fit_boxes(const at::Tensor& boxes, PictureSize from, PictureSize size, ImageFit fit);

// The part of the image that fit_image keeps, unscaled (letterbox: as it is fitted): what a map of the network is shown
// over.
at::Tensor seen_part(const at::Tensor& image, PictureSize size, ImageFit fit);

// uint8 [1 or 3, H, W] in 1 or 3 channels, as the decoder makes it of a file (data/image.h).
at::Tensor in_channels(const at::Tensor& picture, int64_t channels);

// uint8 [H, W] to [height, width]: each place takes the pixel under its centre.
at::Tensor resize_nearest(const at::Tensor& mask, int64_t height, int64_t width);

}  // namespace pare
