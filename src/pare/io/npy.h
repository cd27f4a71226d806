// NumPy's .npy files, versions 1 and 2: one tensor, in C or Fortran order, little-endian.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>

#include "pare/io/byte_source.h"

namespace pare {

// A tensor in Fortran order comes back as a strided view. Throws Error{format} when the file is malformed and
// Error{unsupported} for a dtype that ATen does not have, for big-endian data and for pickled objects.
at::Tensor read_npy(const std::filesystem::path& path);
at::Tensor parse_npy(const ByteSource& source);

// Version 1, C order. NumPy has no bfloat16: Error{unsupported}.
void write_npy(const std::filesystem::path& path, const at::Tensor& tensor);

}  // namespace pare
