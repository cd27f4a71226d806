#include "input.h"

#include <fmt/ranges.h>

#include <set>

#include "pare/error.h"
#include "pare/metrics/evaluate.h"

namespace pare::cli {

namespace {

Model read(const Session& session, const std::string& path, const ModelOptions& options) {
  Model model = load_model(path, options, static_cast<uint64_t>(session.common.seed));
  for (const auto& note : model.notes) session.say("note: {}: {}\n", path.empty() ? options.arch : path, note);
  return model;
}

// Error{usage} for a name of --input-shape that is an input of none of the models.
void check_shape_names(const ModelOptions& options, const std::vector<const Graph*>& models) {
  std::set<std::string> inputs;
  for (const Graph* model : models)
    for (const auto& input : model->inputs) inputs.insert(input.name);
  for (const auto& [name, shape] : shapes_of(options).inputs)
    if (!inputs.contains(name))
      throw Error(ErrorKind::usage, "--input-shape", "there is no input '{}', expected one of: {}", name,
                  fmt::join(inputs, ", "));
}

}  // namespace

Model read_model(const Session& session, const std::string& path, const ModelOptions& options) {
  Model model = read(session, path, options);
  check_shape_names(options, {&model.graph});
  return model;
}

std::vector<Graph> read_models(const Session& session, const std::vector<std::string>& paths,
                               const ModelOptions& options) {
  std::vector<Graph> models;
  std::vector<const Graph*> all;
  for (const auto& path : paths) models.push_back(read(session, path, options).graph);
  for (const auto& model : models) all.push_back(&model);
  if (!models.empty()) check_shape_names(options, all);
  return models;
}

void say_normalization(const Session& session, const std::vector<std::string>& paths, const std::vector<Graph>& models,
                       const std::vector<double>& mean, const std::vector<double>& std) {
  for (size_t i = 0; i < models.size(); ++i)
    for (const auto& note : normalization_notes(models[i], mean, std)) session.say("note: {}: {}\n", paths[i], note);
}

void say_pictures(const Session& session, const std::vector<std::string>& paths, const std::vector<Graph>& models,
                  const DataChoice& choice) {
  for (size_t i = 0; i < models.size(); ++i)
    for (const auto& note : choice.picture_notes(models[i])) session.say("note: {}: {}\n", paths[i], note);
}

}  // namespace pare::cli
