// Models in and out: any supported file in, as a simplified graph; ONNX or safetensors out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "pare/graph.h"
#include "pare/options.h"

namespace pare {

struct ModelOptions {
  std::string arch;  // for files that hold only weights
  std::string activation = "relu";
  double width = 1.0;
  int64_t classes = 0;  // 0: not given
  double dropout = 0;
  std::string shortcut;
  std::string bias;                      // of linear layers: yes, no, or empty for the architecture's own
  std::vector<int64_t> image;            // channels, height, width
  std::vector<std::string> input_shape;  // NAME=1x3x224x224, for inputs with open extents

  // `weights`: where there are weights without a network, which an architecture is for.
  void describe(OptionVisitor& options, const OptionScope& weights = {});
};

struct Model {
  std::string path;  // empty for a freshly initialised architecture
  Graph graph;
  std::vector<std::string> notes;  // what a user should know: ignored keys, a prefix taken off, a size assumed
  double seconds = 0;              // spent loading
};

// Reads `path` (by its content), or initialises the architecture `arch` from the seed when `path` is empty.
// Error{usage} when weights come without an architecture. Open extents that `input_shape` gives are assumed
// (Dim::assumed); names of other inputs are passed over.
Model load_model(const std::string& path, const ModelOptions& options, uint64_t seed = 0);
Graph load(const std::filesystem::path& path, const ModelOptions& options = {});
// A fresh network of an architecture.
Graph build(const ModelOptions& options, uint64_t seed = 0);
std::vector<std::string> architecture_names();

struct SaveOptions {
  int64_t opset = 13;
  bool force = false;
  bool metadata = true;  // of the command that writes it: library functions write a graph's own
};

// Writes by extension, .onnx or .safetensors; returns what a user should know (an opset raised, a file beside it).
std::vector<std::string> save(const Graph& graph, const std::filesystem::path& path, const SaveOptions& options = {});

// A model's ONNX file in memory; Error{unsupported} when it is too large for one protobuf message. What the opset was
// raised by, where an operator needs a newer one, is no error.
std::string to_onnx(const Graph& graph, int64_t opset = 13);
// `name` stands for the file in errors. There is no external data.
Graph from_onnx(std::span<const std::byte> bytes, const std::string& name = "model");

}  // namespace pare
