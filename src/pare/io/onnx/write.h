// Writes a Graph as an ONNX model. The bytes depend on the graph and the options alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "pare/graph.h"

namespace pare {

struct WriteOptions {
  int64_t opset = 13;          // 11 to 28; rises when an operator needs a newer one
  bool external_data = false;  // tensors go to a file `<name>.data` beside the model; always so above 1.8 GB
};

struct WriteReport {
  int64_t opset = 0;                   // the one written
  std::vector<std::string> raised_by;  // why it is not the one asked for, one sentence each
};

// Writes the model, and its data file before it, each whole or not at all.
WriteReport write_onnx(const Graph& graph, const std::filesystem::path& path, const WriteOptions& options = {});

// The model as bytes; Error{unsupported} when it is too large for one protobuf message. `options.external_data` has no
// meaning here.
std::string to_onnx_bytes(const Graph& graph, const WriteOptions& options = {}, WriteReport* report = nullptr);

}  // namespace pare
