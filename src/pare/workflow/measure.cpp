#include "pare/workflow/measure.h"

#include <fmt/format.h>

#include "pare/workflow/measured.h"
#include "pare/workflow/output_distance.h"

namespace pare {

Measure::Measure(const Graph& original, const PruneJob& options) : original_(original), options_(options) {
  if (!options.ranks->main() || options.plan) return;
  data_ = options.measured_on(original);
  if (data_)
    samples_ = samples_of(*data_, original);
  else if (options.given != nullptr)
    samples_ = *options.given;
  by_distance_ = samples_.size > 0 && (!samples_.labelled() || !gives_class_scores(original, samples_));
}

Measured Measure::operator()(const Graph& graph, const std::string& what) const {
  if (!by_distance_) return measured(graph, labelled(), options_.progress, what);
  const auto progress = [&](int64_t done, int64_t all) {
    if (options_.progress) options_.progress(what, done, all);
  };
  return {.cost = cost_of(graph), .metrics = {{"distance", output_distance(original_, graph, samples_, progress)}}};
}

std::string Measure::note() const {
  return fmt::format("{}: measured by the distance of outputs from the original's, relative to their length",
                     samples_.labelled() ? "the outputs are not the scores of classes" : "there are no labels");
}

}  // namespace pare
