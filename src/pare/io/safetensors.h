// The safetensors format: 8 bytes of header length, a JSON header {name: {dtype, shape, data_offsets}}, then the bytes
// of all tensors without gaps. Reading is strict and shares the file's memory; writing is deterministic and atomic.
#pragma once

#include <filesystem>

#include "pare/io/byte_source.h"
#include "pare/io/named_tensors.h"

namespace pare {

// Throws Error{format} naming the file, the tensor, what was expected and found; Error{unsupported} for a dtype that
// ATen does not have (F8_E4M3, U16, ...).
NamedTensors read_safetensors(const std::filesystem::path& path);
NamedTensors parse_safetensors(const ByteSource& source);

// The header keeps the order of the tensors; their bytes are laid out widest dtype first, so that all are aligned.
// Equal tensors, names and metadata give equal bytes. Tensors that share memory are written once each.
void write_safetensors(const std::filesystem::path& path, const NamedTensors& weights);

}  // namespace pare
