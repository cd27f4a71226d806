// Augmentations of a batch of images [N, C, H, W]: bytes before they are normalised, or float32 as a network sees them
// (flip, crop and cutout; borders and cuts are zero there, which is the mean of normalised images). What is done to
// each image is drawn first, as plain numbers, and then applied; drawing takes a Random, so the same seed gives the
// same batch.
//
// Pure functions, each on the calling thread alone; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "pare/data/pictures.h"
#include "pare/data/random.h"

namespace pare {

struct AugmentOptions {
  bool flip = false;  // mirror left to right, with probability 1/2
  int64_t pad = 0;    // > 0: black border of so many pixels, then a random crop of the old size
  // A random box of 8 to 100 % of the area, scaled to the images' size (Szegedy et al. 2015): of the picture in full
  // where it lies in a file of its own, else of the image.
  bool resized_crop = false;
  double min_area = 0.08, max_area = 1.0;
  double min_aspect = 3.0 / 4, max_aspect = 4.0 / 3;
  int64_t cutout = 0;  // > 0: a square of this side around a random pixel becomes the fill (DeVries & Taylor 2017)

  bool any() const { return flip || pad > 0 || resized_crop || cutout > 0; }
};

// "none", or any of flip, crop[:PIXELS] (4), resized-crop, cutout[:SIDE] (16) joined by commas; "standard" is
// crop:4,flip.
AugmentOptions parse_augment(std::string_view text);

struct Box {
  int64_t top = 0, left = 0, height = 0, width = 0;
};

// What is done to one image, in this order.
struct ImageAugmentation {
  Box crop;  // of the padded image, or of the image when it is scaled back
  bool flip = false;
  int64_t cut_y = 0, cut_x = 0;  // centre of the cut
};

// `full`: the extents of the pictures that are cropped, where these are not the images.
std::vector<ImageAugmentation> draw_augmentations(const AugmentOptions& options, int64_t count, int64_t height,
                                                  int64_t width, Random& random,
                                                  std::span<const ImageExtents> full = {});

// The four operations; `drawn` holds one entry per image. `fill` has a byte for each channel.
at::Tensor pad_and_crop(const at::Tensor& images, int64_t pad, const std::vector<ImageAugmentation>& drawn);
at::Tensor resized_crop(const at::Tensor& images, const std::vector<ImageAugmentation>& drawn);
// Of pictures in files: uint8 [N, channels, height, width].
at::Tensor resized_crop(std::span<const PictureFile* const> files, const std::vector<ImageAugmentation>& drawn,
                        const ImageExtents& extents);
at::Tensor flip_horizontally(const at::Tensor& images, const std::vector<ImageAugmentation>& drawn);
at::Tensor cut_out(const at::Tensor& images, int64_t side, const std::vector<ImageAugmentation>& drawn,
                   const std::vector<uint8_t>& fill);

// Applies what `options` asks for. The result shares no memory with `images` unless nothing is asked for.
at::Tensor augmented(const at::Tensor& images, const AugmentOptions& options,
                     const std::vector<ImageAugmentation>& drawn, const std::vector<uint8_t>& fill);
// Draws it as well.
at::Tensor augment(const at::Tensor& images, const AugmentOptions& options, const std::vector<uint8_t>& fill,
                   Random& random);

}  // namespace pare
