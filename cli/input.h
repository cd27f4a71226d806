// Models that a command reads, with the notes that a user should see.
#pragma once

#include <string>
#include <vector>

#include "command.h"
#include "pare/data/data_options.h"
#include "pare/zoo/model.h"

namespace pare::cli {

// Error{usage} for a name of --input-shape that is an input of none of the models read together.
Model read_model(const Session& session, const std::string& path, const ModelOptions& options);

std::vector<Graph> read_models(const Session& session, const std::vector<std::string>& paths,
                               const ModelOptions& options);

// Says where models learned images of another mean or deviation than these.
void say_normalization(const Session& session, const std::vector<std::string>& paths, const std::vector<Graph>& models,
                       const std::vector<double>& mean, const std::vector<double>& std);

// Says how pictures are made to fit where that is a guess, or where models learned it otherwise.
void say_pictures(const Session& session, const std::vector<std::string>& paths, const std::vector<Graph>& models,
                  const DataChoice& choice);

}  // namespace pare::cli
