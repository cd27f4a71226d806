// Images made from nothing that have what photographs have and noise lacks: objects in front of one another.
//
// Dead leaves (Ruderman, Origins of scaling in natural images, 1997; Lee, Mumford & Huang, Occlusion models for natural
// images, 2001): shapes with radii of density r⁻³ fall on one another until the image is covered. Edges, areas and the
// 1/f spectrum follow from that. Here each leaf is an ellipse or a rectangle at any angle, of its own colour, shading
// and texture (1/f noise of its own strength), and an image has leaves of its own contrast and palette.
//
// Pure functions; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pare {

// float32 [count, channels, height, width], of mean 0 and variance 1 over all images. Image i depends on the seed and i
// alone but for that scale.
at::Tensor leaf_images(int64_t count, int64_t channels, int64_t height, int64_t width, uint64_t seed);

}  // namespace pare
