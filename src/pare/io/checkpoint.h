// PyTorch checkpoints: the zip archives of PyTorch 1.6 and later, and the legacy format before it (a sequence of
// pickles, then raw storages). Nothing in a file is executed; see pickle.h.
#pragma once

#include <filesystem>

#include "pare/io/byte_source.h"
#include "pare/io/named_tensors.h"

namespace pare {

// The state dict of a checkpoint, on the CPU, whatever device it was saved from. Chooses the format by content. Throws
// Error{format} when the file is damaged and Error{unsupported} for what is not plain data: other pickle globals, whole
// modules, TorchScript, tar files, sparse or quantized tensors.
NamedTensors read_checkpoint(const std::filesystem::path& path);

NamedTensors parse_checkpoint(const ByteSource& source);
NamedTensors parse_legacy_checkpoint(const ByteSource& source);
NamedTensors parse_zip_checkpoint(const ByteSource& source);

// What the first bytes say; no promise that the rest is in order.
bool looks_like_checkpoint(const ByteSource& source);
bool looks_like_zip(const ByteSource& source);
bool looks_like_legacy_checkpoint(const ByteSource& source);

}  // namespace pare
