// What a window sees at chosen places, as rows: the patches of a convolution, copied once and in the order in which a
// least squares wants them.
//
// Pure functions; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "pare/ops/window.h"

namespace pare {

// [groups, images·places, channels of a group·kernel] of an input [images, channels, extents…] that is padded already.
// `places` [images, places] are numbers counted through the places of the window. Images come in the given order, which
// may leave some out; in their own where there is none.
at::Tensor window_rows(const at::Tensor& padded, const std::vector<WindowAxis>& window, const at::Tensor& places,
                       int64_t groups, const std::vector<int64_t>& order = {});

}  // namespace pare
