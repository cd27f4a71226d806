// Single tensors in protobuf files, as ONNX's test data has them (test_data_set_0/input_0.pb).
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>

namespace pare {

// Error{format} when the bytes are no tensor, Error{unsupported} for an element type pare does not read or a file that
// holds a sequence, Error{file} when it cannot be read.
at::Tensor read_tensor_pb(const std::filesystem::path& path);

// Writes the tensor under a name, whole or not at all.
void write_tensor_pb(const at::Tensor& tensor, const std::filesystem::path& path, const std::string& name = "");

}  // namespace pare
