// Weights of whatever file the user names.
#pragma once

#include <filesystem>

#include "pare/io/byte_source.h"
#include "pare/io/named_tensors.h"

namespace pare {

// Reads safetensors files and PyTorch checkpoints (zip or legacy), chosen by content and not by the file's extension.
// Throws Error{format} saying what was expected when the file is none of them.
NamedTensors read_weights(const std::filesystem::path& path);

// By the first bytes.
bool looks_like_weights(const std::filesystem::path& path);
NamedTensors parse_weights(const ByteSource& source);

}  // namespace pare
