#include "pare/zoo/model.h"

#include <ATen/ATen.h>

#include <charconv>
#include <chrono>

#include "pare/core/file.h"
#include "pare/error.h"
#include "pare/io/onnx/read.h"
#include "pare/io/onnx/versions.h"
#include "pare/io/onnx/write.h"
#include "pare/io/safetensors.h"
#include "pare/io/weights.h"
#include "pare/passes/run_pass.h"
#include "pare/passes/simplify.h"
#include "pare/version.h"
#include "pare/zoo/match.h"
#include "pare/zoo/zoo.h"

namespace pare {

namespace fs = std::filesystem;

void ModelOptions::describe(OptionVisitor& options, const OptionScope& weights) {
  options.heading("model");
  options.essential().field("arch", arch, "architecture of a file that holds only weights", architecture_names());
  options.field("activation", activation, "activation of `arch` (default: its own)", activation_names());
  options.field("width", width, "width multiplier of `arch`");
  options.field("classes", classes, "number of classes of `arch` (0: those of the data it trains on, else 10)");
  options.field("dropout", dropout, "dropout of `arch`, while it trains");
  options.field("shortcut", shortcut, "shortcut of a residual `arch`: a pads with zeros, b is a 1x1 convolution");
  options.field("bias", bias, "biases in linear layers of `arch` (default: as the architecture has them)");
  options.field("image", image, "channels, height and width of the input of `arch`, or how many tokens");
  options.field("input-shape", input_shape,
                "NAME=1x3x224x224: what to take open extents of an input for; they stay open in what is written");
  if (!weights.empty()) options.only({"arch"}, weights);
  options.only({"activation", "width", "classes", "dropout", "bias", "image"}, {with("arch")});
  options.only({"shortcut"}, {with("arch", {"resnet*"})});
}

std::vector<int64_t> parse_extents(const std::string& text, const std::string& where) {
  std::vector<int64_t> extents;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find_first_of("x,", start), text.size());
    int64_t value = 0;
    const auto [last, failed] = std::from_chars(text.data() + start, text.data() + end, value);
    if (failed != std::errc() || last != text.data() + end || value < 0)
      throw Error(ErrorKind::usage, where, "'{}' is not a list of extents such as 1x3x224x224", text);
    extents.push_back(value);
    start = end + 1;
  }
  return extents;
}

ShapeOptions shapes_of(const ModelOptions& options) {
  ShapeOptions result;
  for (const auto& entry : options.input_shape) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos)
      throw Error(ErrorKind::usage, OptionName{"input-shape"}, "expected NAME=1x3x224x224, found '{}'", entry);
    result.inputs[entry.substr(0, equals)] = parse_extents(entry.substr(equals + 1), OptionName{"input-shape"});
  }
  return result;
}

namespace {

// A first extent of 1 stays open: analyses take it for one sample, and a command that runs batches chooses their size.
void assume_extents(ValueInfo& input, const Shape& given) {
  if (!input.dims) input.dims.emplace(given.size());
  if (input.dims->size() != given.size())
    throw Error(ErrorKind::usage, OptionName{"input-shape"}, "'{}' has {} extents, found {}", input.name,
                input.dims->size(), given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    Dim& dim = (*input.dims)[i];
    if (dim.fixed() && dim.size != given[i])
      throw Error(ErrorKind::usage, OptionName{"input-shape"}, "extent {} of '{}' is {}, found {}", i, input.name,
                  dim.size, given[i]);
    if (dim.fixed() || (i == 0 && given[i] == 1)) continue;
    dim.size = given[i];
    dim.assumed = true;
  }
}

Graph zoo_graph(const ModelOptions& options, uint64_t seed) {
  ArchOptions arch{.activation = options.activation,
                   .width = options.width,
                   .input = options.image,
                   .shortcut = options.shortcut,
                   .dropout = options.dropout};
  if (options.classes != 0) arch.classes = options.classes;
  if (options.bias != LinearBias::automatic) arch.bias = options.bias == LinearBias::yes;
  Graph graph = build(options.arch, arch, seed);
  graph.metadata["pare.arch"] = options.arch;
  return graph;
}

bool is_onnx(const std::string& path) {
  const std::string extension = fs::path(path).extension();
  return extension == ".onnx" || extension == ".pb" || extension == ".ort";
}

struct ForeignFormat {
  const char* extension;
  const char* name;
  const char* convert;
};

// Networks of other frameworks, which their own tools turn into ONNX.
constexpr ForeignFormat kForeign[] = {
    {".tflite", "a TensorFlow Lite model", "python3 -m tf2onnx.convert --tflite FILE --output FILE.onnx"},
    {".keras", "a Keras model", "tf2onnx.convert.from_keras"},
    {".h5", "a Keras (HDF5) model", "tf2onnx.convert.from_keras"},
    {".hdf5", "a Keras (HDF5) model", "tf2onnx.convert.from_keras"},
    {".mlmodel", "a Core ML model", "coremltools and onnxmltools"},
    {".pdmodel", "a PaddlePaddle model", "paddle2onnx"},
};

void refuse_foreign(const std::string& path) {
  for (const auto& format : kForeign)
    if (fs::path(path).extension() == format.extension)
      throw Error(ErrorKind::unsupported, path, "is {}, expected ONNX or weights; convert it with {}", format.name,
                  format.convert);
}

Graph with_checkpoint(const std::string& path, const ModelOptions& options, uint64_t seed,
                      std::vector<std::string>& notes) {
  MappedFile::open(path);  // a missing file is told before a missing `arch`
  refuse_foreign(path);
  if (options.arch.empty() && !looks_like_weights(path))
    throw Error(
        ErrorKind::format, path,
        "is not a model: expected an ONNX file with a name that ends in .onnx, or weights (safetensors, PyTorch) "
        "beside `arch`");
  if (options.arch.empty())
    throw Error(ErrorKind::usage, path,
                "holds weights without a network; name its architecture by `arch` (the help of `arch` lists them)");
  const NamedTensors weights = read_weights(path);
  MatchReport report;
  Graph graph = with_weights(zoo_graph(options, seed), weights.tensors, report);
  if (!report.prefix.empty()) notes.push_back(fmt::format("took the prefix '{}' off the names", report.prefix));
  if (!report.ignored.empty())
    notes.push_back(
        fmt::format("ignored {} tensors without a place: {}", report.ignored.size(), fmt::join(report.ignored, ", ")));
  for (const auto& ignored : weights.ignored) notes.push_back("did not read " + ignored);
  for (const auto& [key, value] : weights.metadata) graph.metadata[key] = value;
  return graph;
}

}  // namespace

Graph load(const fs::path& path, const ModelOptions& options) {
  if (path.empty()) throw Error(ErrorKind::usage, "load", "name a file");
  return load_model(path.string(), options).graph;
}

Graph build(const ModelOptions& options, uint64_t seed) { return load_model("", options, seed).graph; }

std::vector<std::string> architecture_names() {
  std::vector<std::string> names;
  for (const auto& info : architectures()) names.push_back(info.name);
  return names;
}

std::string to_onnx(const Graph& graph, int64_t opset) {
  check_written_opset(opset);
  return to_onnx_bytes(graph, {.opset = opset});
}

Graph from_onnx(std::span<const std::byte> bytes, const std::string& name) {
  return run_pass("simplify", simplify, read_onnx_bytes(bytes, name));
}

Model load_model(const std::string& path, const ModelOptions& options, uint64_t seed) {
  const auto start = std::chrono::steady_clock::now();
  Model model{.path = path};
  if (path.empty()) {
    if (options.arch.empty()) throw Error(ErrorKind::usage, "model", "name a file, or an architecture with `arch`");
    model.graph = zoo_graph(options, seed);
  } else if (is_onnx(path)) {
    model.graph = read_onnx(path);
    if (!options.arch.empty()) model.notes.push_back("is a network already: `arch` does not apply to it");
  } else {
    model.graph = with_checkpoint(path, options, seed, model.notes);
  }
  model.graph = run_pass("simplify", simplify, model.graph);
  // Not before: what is simplified has to hold for any extents.
  const ShapeOptions shapes = shapes_of(options);
  for (auto& input : model.graph.inputs)
    if (const auto given = shapes.inputs.find(input.name); given != shapes.inputs.end())
      assume_extents(input, given->second);
  for (const auto& [name, shape] : analysis_shapes(model.graph).assumed)
    model.notes.push_back(fmt::format("takes '{0}' of any size: analysed at {1} (`input-shape` {0}={1} or another)",
                                      name, fmt::join(shape, "x")));
  model.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return model;
}

void check_output(const fs::path& path, const SaveOptions& options) {
  const std::string extension = path.extension();
  if (extension != ".onnx" && extension != ".safetensors")
    throw Error(ErrorKind::usage, path.string(), "expected a name that ends in .onnx or .safetensors");
  if (options.opset != 0) check_written_opset(options.opset);
  check_writable(path, options.force);
}

std::vector<std::string> save(const Graph& graph, const fs::path& path, const SaveOptions& options) {
  check_output(path, options);
  if (!options.metadata && !graph.metadata.empty()) {
    Graph bare = graph;
    bare.metadata.clear();
    return save(bare, path, options);
  }
  if (path.extension() == ".safetensors") {
    NamedTensors weights;
    weights.metadata = graph.metadata;
    for (const auto& name : state_names(graph)) weights.tensors.emplace_back(name, in_state(graph, name).contiguous());
    write_safetensors(path, weights);
    return {};
  }
  const WriteReport report = write_onnx(graph, path, {.opset = options.opset});
  std::vector<std::string> notes;
  if (report.opset != options.opset)
    notes.push_back(fmt::format("wrote opset {} instead of {}: needed by {}", report.opset, options.opset,
                                fmt::join(report.raised_by, ", ")));
  return notes;
}

}  // namespace pare
