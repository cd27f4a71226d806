// The idx format of MNIST and its kin, plain or gzip (told apart by the first bytes): a header of a type and sizes,
// then the bytes. Only unsigned bytes (type 0x08) are read. The file must hold exactly what its header declares;
// nothing more is inflated, and sizes that the file cannot hold throw Error{format} before memory is taken.
//
// Pure functions; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace pare {

// A uint8 tensor of the declared sizes (1 to 4 of them).
at::Tensor decode_idx(std::span<const std::byte> bytes, std::string_view where);
at::Tensor read_idx(const std::filesystem::path& path);

}  // namespace pare
