#include "output.h"

#include <ATen/ATen.h>

#include <filesystem>

#include "pare/core/file.h"
#include "pare/error.h"
#include "pare/io/safetensors.h"
#include "pare/version.h"

namespace pare::cli {

namespace fs = std::filesystem;

void OutputOptions::describe(OptionVisitor& options) {
  options.heading("output");
  options.field("opset", opset, "ONNX opset to write (0: the input's)");
  options.field("no-metadata", no_metadata,
                "write nothing but the network: neither what made it nor its classes, mean, std and preprocessing");
  options.only({"opset"}, {with("output", {"*.onnx"})});
}

namespace {

// Of a path the name; other texts, such as globs of layers, stay. A data set is "folder:PATH".
std::string without_directories(const std::string& text) {
  const size_t colon = text.find(':');
  const size_t begin = colon != std::string::npos && colon < text.find('/') ? colon + 1 : 0;
  const fs::path path = text.substr(begin);
  std::error_code ignored;
  const bool is_path = path.has_parent_path() && (path.is_absolute() || fs::is_directory(path.parent_path(), ignored));
  if (!is_path) return text;
  return text.substr(0, begin) + (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace

nlohmann::json portable_recipe(const nlohmann::json& recipe) {
  nlohmann::json result = recipe;
  if (result.is_string()) return without_directories(result.get<std::string>());
  if (result.is_structured())
    for (auto& entry : result) entry = portable_recipe(entry);
  return result;
}

std::vector<std::string> write_model(Session& session, Graph graph, const std::string& output,
                                     const std::vector<std::string>& inputs, SaveOptions options) {
  session.ranks.barrier();  // nobody looks for the file any more
  if (!session.ranks.main()) return {};
  std::vector<std::string> digests;
  for (const auto& input : inputs)
    if (!input.empty()) digests.push_back(sha256_of_file(input));
  graph.metadata["pare.version"] = kVersion;
  graph.metadata["pare.recipe"] = json_text(portable_recipe(session.recipe));
  if (!digests.empty()) graph.metadata["pare.input_sha256"] = fmt::format("{}", fmt::join(digests, " "));
  if (options.opset == 0) options.opset = graph.source_opset != 0 ? graph.source_opset : SaveOptions{}.opset;
  auto notes = save(graph, output, options);
  for (const auto& note : notes) session.say("note: {}\n", note);
  return notes;
}

namespace {

// The tensors of a file that this program wrote; none where it cannot be read.
TensorMap tensors_of(const std::filesystem::path& file) {
  try {
    if (file.extension() != ".safetensors") return load_model(file.string(), {}).graph.tensors;
    const NamedTensors content = read_safetensors(file);
    return {content.tensors.begin(), content.tensors.end()};
  } catch (const Error&) {
    return {};
  }
}

// Weights, without the constants that another opset writes otherwise.
TensorMap weights_of(const TensorMap& tensors) {
  TensorMap weights;
  for (const auto& [name, tensor] : tensors)
    if (tensor.is_floating_point() && tensor.dim() > 0) weights.emplace(name, tensor);
  return weights;
}

}  // namespace

void write_trained(Session& session, const TrainingOutcome& outcome, const std::string& output,
                   const std::vector<std::string>& inputs, SaveOptions options) {
  if (outcome.done_already && std::filesystem::exists(output) && !options.force) {
    if (fingerprint(weights_of(tensors_of(output))) != fingerprint(weights_of(outcome.graph.tensors)))
      check_output(output, options);
    session.say("This run was done already ({}); {} is left as it is.\n", outcome.run.path.string(), output);
    return;
  }
  options.force = true;  // it was checked before anything was trained
  write_model(session, outcome.graph, output, inputs, options);
}

}  // namespace pare::cli
