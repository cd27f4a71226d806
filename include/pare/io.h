// Models in and out: any supported file in, as a simplified graph; ONNX or safetensors out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pare/graph.h"
#include "pare/options.h"

namespace pare {

// The shortcuts of a residual network where its width changes: a subsamples and pads with zeros, b is a 1×1 convolution
// and a batch norm; automatic: the architecture's own.
enum class Shortcut { automatic, a, b };
template <>
struct NamesOf<Shortcut> {
  static constexpr std::string_view names[] = {"", "a", "b"};
};

// Whether linear layers have biases; automatic: as the architecture has them.
enum class LinearBias { automatic, yes, no };
template <>
struct NamesOf<LinearBias> {
  static constexpr std::string_view names[] = {"", "yes", "no"};
};

struct ModelOptions {
  std::string arch;        // of architecture_names(), for files that hold only weights
  std::string activation;  // of activation_names(); empty: that of the architecture
  double width = 1.0;
  int64_t classes = 0;  // 0: not given
  double dropout = 0;
  Shortcut shortcut = Shortcut::automatic;
  LinearBias bias = LinearBias::automatic;
  std::vector<int64_t> image;            // channels, height, width; of a text encoder, how many tokens
  std::vector<std::string> input_shape;  // NAME=1x3x224x224, for inputs with open extents

  // `weights`: the scope in which a file may hold weights without a network, so that `arch` has a meaning.
  void describe(OptionVisitor& options, const OptionScope& weights = {});
};

struct Model {
  std::string path;  // empty for a freshly initialised architecture
  Graph graph;
  std::vector<std::string> notes;  // what a user should know: ignored keys, a prefix removed, an assumed size
  double seconds = 0;              // spent loading
};

// Reads `path` (by its content), or initialises the architecture `arch` from the seed when `path` is empty.
// Error{usage} when weights come without an architecture. Open extents that `input_shape` gives are assumed
// (Dim::assumed); names that are not inputs of the model are ignored.
Model load_model(const std::string& path, const ModelOptions& options, uint64_t seed = 0);
Graph load(const std::filesystem::path& path, const ModelOptions& options = {});
// A fresh network of an architecture.
Graph build(const ModelOptions& options, uint64_t seed = 0);
// The names that `arch` and `activation` take.
std::vector<std::string> architecture_names();
std::vector<std::string> activation_names();

struct SaveOptions {
  int64_t opset = 13;
  bool force = false;
  bool metadata = true;  // the graph's metadata are written too
};

// Writes by extension, .onnx or .safetensors; returns what a user should know (an opset that was raised, a
// second file for the weights).
std::vector<std::string> save(const Graph& graph, const std::filesystem::path& path, const SaveOptions& options = {});

// A model's ONNX file in memory; Error{unsupported} when it is too large for one protobuf message. Where an
// operator needs a newer opset, that one is used instead.
std::string to_onnx(const Graph& graph, int64_t opset = 13);
// `name` stands for the file in errors. Weights in external files cannot be read.
Graph from_onnx(std::span<const std::byte> bytes, const std::string& name = "model");

}  // namespace pare
