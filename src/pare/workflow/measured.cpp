#include "pare/workflow/measured.h"

#include "pare/analysis/cost.h"
#include "pare/metrics/evaluate.h"

namespace pare {

Measured measured(const Graph& graph, const Dataset* data, const StageProgress& progress, const std::string& what) {
  Measured result{.cost = cost_of(graph)};
  if (data == nullptr) return result;
  const auto report = [&](int64_t done, int64_t all) {
    if (progress) progress(what, done, all);
  };
  result.metrics = metrics_of(evaluate({graph}, *data, {.progress = report}), 0);
  return result;
}

}  // namespace pare
