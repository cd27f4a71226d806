#include "input.h"

#include "pare/workflow/evaluate.h"

namespace pare::cli {

Model read_model(const Session& session, const std::string& path, const ModelOptions& options) {
  Model model = load_model(path, options, static_cast<uint64_t>(session.common.seed));
  for (const auto& note : model.notes) session.say("note: {}: {}\n", path.empty() ? options.arch : path, note);
  return model;
}

std::vector<Graph> read_models(const Session& session, const std::vector<std::string>& paths,
                               const ModelOptions& options) {
  std::vector<Graph> models;
  for (const auto& path : paths) models.push_back(read_model(session, path, options).graph);
  return models;
}

void say_normalization(const Session& session, const std::vector<std::string>& paths, const std::vector<Graph>& models,
                       const std::vector<double>& mean, const std::vector<double>& std) {
  for (size_t i = 0; i < models.size(); ++i)
    for (const auto& note : normalization_notes(models[i], mean, std)) session.say("note: {}: {}\n", paths[i], note);
}

}  // namespace pare::cli
