// A linear layer as a matrix product of rows, whatever operator it is: y = W h + b at every place of its output, h the
// patch of the input that the place sees. Convolutions in one, two and three dimensions, dilated, strided, grouped,
// depthwise and transposed; Gemm; MatMul by a constant.
//
// Pure functions; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "pare/analysis/layers.h"
#include "pare/graph.h"

namespace pare {

// Can rows be made of what the layer reads? Not of a ConvTranspose whose padding is worked out at run time.
bool has_rows(const Graph& graph, const LinearLayer& layer);

// groups, outputs, channels and kernel of the layer's weight: the extents of the next.
std::vector<int64_t> weight_dims(const Graph& graph, const LinearLayer& layer);
// double [groups, outputs, channels, kernel]: of each group, what an output takes from each entry of the patch.
at::Tensor weight_by_group(const Graph& graph, const LinearLayer& layer);
// The graph with such a weight in the layer.
void store_weight(Graph& graph, const LinearLayer& layer, const at::Tensor& weight);

// Which places of the output of each image are looked at: [images, places], numbers of places counted through height
// and width. All of them up to `most`, else one at random out of each of `most` equal parts; a function of the seed and
// the image's number alone.
at::Tensor sampled_places(int64_t all, int64_t most, int64_t first_image, int64_t images, uint64_t seed);

// How many places the layer's output y has in an image.
int64_t places_of(const LinearLayer& layer, const at::Tensor& y);

// [groups, images·places, channels·kernel] of the layer's input x, and [groups, images·places, outputs] of its output.
// Images in the given order, or in their own.
at::Tensor input_rows(const Graph& graph, const LinearLayer& layer, const at::Tensor& x, const at::Tensor& places,
                      const std::vector<int64_t>& order = {});
at::Tensor output_rows(const LinearLayer& layer, const at::Tensor& y, const at::Tensor& places,
                       const std::vector<int64_t>& order = {});

}  // namespace pare
