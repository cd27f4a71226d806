// A model's size and accuracy, before and after.
#pragma once

#include <functional>
#include <string>

#include "pare/data/dataset.h"
#include "pare/graph.h"
#include "pare/prune.h"

namespace pare {

using StageProgress = std::function<void(const std::string& what, int64_t done, int64_t all)>;

// Without data only the size.
Measured measured(const Graph& graph, const Dataset* data, const StageProgress& progress, const std::string& what);

}  // namespace pare
