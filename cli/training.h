// Feedback while a command trains: a bar on a terminal, else a line per epoch; --log events; interrupts that store the
// state first.
#pragma once

#include <optional>

#include "command.h"
#include "pare/data/data_options.h"
#include "pare/metrics/evaluate.h"
#include "pare/workflow/sparsify.h"
#include "pare/workflow/train.h"
#include "pare/zoo/model.h"

namespace pare::cli {

TrainingOutcome train_with_feedback(Session& session, const Graph& graph, const Dataset& data,
                                    const TrainingOptions& options, TrainingJob job);

// Error{usage} unless --split is train, as commands that learn have it.
void check_training_split(const DataChoice& data);

// The model at `path`, or, where that is empty, the architecture's initial values for the data's images and classes
// unless the options say otherwise (they are filled in). `unlabelled`: the data may have no labels.
struct TrainingInput {
  Model model;
  Dataset data;  // the training split
};
TrainingInput load_for_training(Session& session, const std::string& path, ModelOptions& options,
                                const DataChoice& data, bool unlabelled = false);

// train_with_feedback for methods that train in several stages.
Trainer trainer_with_feedback(Session& session);

// The test split as the model takes it; nothing where the data has none.
std::optional<Dataset> test_split(const DataChoice& data, const Graph& model);

// Which images chose what is kept (a part of the training images held out, 0: nothing was chosen) and which measured
// it.
nlohmann::json splits_json(double validation);

// The metrics of each model on the test split; nothing where the data has none.
std::vector<MetricList> test_metrics(const DataChoice& data, const std::vector<Graph>& models);

}  // namespace pare::cli
