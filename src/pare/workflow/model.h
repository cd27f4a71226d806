// A model as a command takes and leaves it: any supported file in, a simplified graph; ONNX or safetensors out.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "pare/analysis/shapes.h"
#include "pare/core/graph.h"
#include "pare/core/options.h"

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
  ShapeOptions shapes() const;  // Error{usage} for a malformed --input-shape
};

struct Model {
  std::string path;  // empty for a freshly initialised architecture
  Graph graph;
  std::vector<std::string> notes;  // what a user should know: ignored keys, a prefix taken off, a size assumed
  double seconds = 0;              // spent loading
};

// Reads `path` (by its content), or initialises --arch from the seed when `path` is empty. Error{usage} when weights
// come without --arch. Open extents that --input-shape gives are assumed (Dim::assumed); names of other inputs are
// passed over.
Model load_model(const std::string& path, const ModelOptions& options, uint64_t seed = 0);

struct SaveOptions {
  int64_t opset = 13;
  bool force = false;
  bool metadata = true;  // of the command that writes it: library functions write a graph's own
};

// Writes by extension, .onnx or .safetensors; returns what a user should know (an opset raised, a file beside it).
std::vector<std::string> save_model(const Graph& graph, const std::filesystem::path& path, const SaveOptions& options);

// Error{usage} unless `path` ends in .onnx or .safetensors and may be written, and so may the opset (0: chosen later).
void check_output(const std::filesystem::path& path, const SaveOptions& options);

// Extents "2x3x4".
std::vector<int64_t> parse_extents(const std::string& text, const std::string& where);

}  // namespace pare
