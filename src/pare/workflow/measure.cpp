#include "pare/workflow/measure.h"

#include <fmt/format.h>

#include "pare/compare.h"
#include "pare/metrics/evaluate.h"
#include "pare/workflow/class_scores.h"
#include "pare/workflow/measured.h"

namespace pare {

namespace {

class StageObserver : public Observer {
 public:
  StageObserver(const StageProgress& progress, const std::string& what) : progress_(progress), what_(what) {}
  void progress(std::string_view, int64_t done, int64_t all) override {
    if (progress_) progress_(what_, done, all);
  }

 private:
  const StageProgress& progress_;
  const std::string& what_;
};

}  // namespace

Measure::Measure(const Graph& original, const PruneJob& options) : original_(original), options_(options) {
  if (!options.ranks->main() || options.plan) return;
  data_ = options.measured_on(original);
  if (data_ && !options.decoder.empty() && data_->boxes.defined())
    data_ = labelled_by(std::move(*data_), LabelKind::boxes);
  if (data_)
    samples_ = samples_of(*data_, original);
  else if (options.given != nullptr)
    samples_ = *options.given;
  by_distance_ = samples_.size > 0 && (!samples_.labelled() || !fits(original));
}

// Do the labels go with what the model gives?
bool Measure::fits(const Graph& original) const {
  switch (label_kind(samples_.labels(0, 1))) {
    case LabelKind::masks: return true;
    case LabelKind::boxes: return !options_.decoder.empty();
    default: return gives_class_scores(original, samples_);
  }
}

Measured Measure::operator()(const Graph& graph, const std::string& what) const {
  if (!by_distance_ && (labelled() == nullptr || labelled()->label_kind() != LabelKind::boxes))
    return measured(graph, labelled(), options_.progress, what);
  StageObserver observer(options_.progress, what);
  Measured result{.cost = cost_of(graph)};
  if (by_distance_)
    result.metrics = metrics_of(agreement(original_, graph, samples_, {.decoder = options_.decoder}, observer));
  else
    result.metrics = metrics_of(evaluate({graph}, *labelled(), {.decoder = options_.decoder}, observer), 0);
  return result;
}

std::string Measure::note() const {
  return fmt::format(
      "{}: measured by how far outputs agree with the original's (`distance` is relative to their length)",
      samples_.labelled() ? "the outputs are not the scores of classes" : "there are no labels");
}

}  // namespace pare
