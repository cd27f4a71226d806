// Feedback while a command trains: a bar on a terminal, else a line an epoch; --log events; interrupts that store the
// state first.
#pragma once

#include "command.h"
#include "pare/workflow/train.h"

namespace pare::cli {

TrainingOutcome train_with_feedback(Session& session, const Graph& graph, const Dataset& data,
                                    const TrainingOptions& options, TrainingJob job);

}  // namespace pare::cli
