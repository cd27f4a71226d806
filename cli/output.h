// A model that a command leaves behind carries what made it: version, recipe and the digests of the files it came from.
#pragma once

#include <string>
#include <vector>

#include "command.h"
#include "pare/workflow/model.h"

namespace pare::cli {

// `inputs`: the model files it was made of; an empty name is none. Says what a user should know, and returns it.
// Options of opset 0 keep that of the graph's file.
std::vector<std::string> write_model(Session& session, Graph graph, const std::string& output,
                                     const std::vector<std::string>& inputs, SaveOptions options);

}  // namespace pare::cli
