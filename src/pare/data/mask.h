// Masks of segmentation: a class for each pixel, 255 = void.
//
// Pure functions; any thread. Files may be hostile: broken ones throw Error{format}.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "pare/data/image.h"

namespace pare {

// uint8 [H, W] of a decoded mask [1 or 3, H, W]: gray levels are classes below `classes` or void, colours are looked up
// in VOC's palette, which has one for every class.
at::Tensor decode_mask(const at::Tensor& image, int64_t classes, std::string_view where);

// That of a file, which has the extents of its picture.
at::Tensor read_mask(const std::filesystem::path& path, int64_t classes, const ImageExtents& picture);

}  // namespace pare
