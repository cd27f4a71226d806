// A model that a command leaves behind carries what made it: version, recipe and the digests of the files it came from.
#pragma once

#include <string>
#include <vector>

#include "command.h"
#include "pare/workflow/train.h"
#include "pare/zoo/model.h"

namespace pare::cli {

// How a model is written.
struct OutputOptions {
  int64_t opset = SaveOptions{}.opset;
  bool no_metadata = false;

  void describe(OptionVisitor& options);  // after --output
  SaveOptions save(bool force) const { return {.opset = opset, .force = force, .metadata = !no_metadata}; }
};

// The options of a command as a file may carry them: of paths only the names.
nlohmann::json portable_recipe(const nlohmann::json& recipe);

// `inputs`: the model files it was made of; an empty name is none. Says what a user should know, and returns it.
// Options of opset 0 keep that of the graph's file.
std::vector<std::string> write_model(Session& session, Graph graph, const std::string& output,
                                     const std::vector<std::string>& inputs, SaveOptions options);

// The network of a training. A run that was done already leaves the file as it is where that holds the network's
// tensors; Error{usage} where it holds something else and may not be replaced.
void write_trained(Session& session, const TrainingOutcome& outcome, const std::string& output,
                   const std::vector<std::string>& inputs, SaveOptions options);

}  // namespace pare::cli
