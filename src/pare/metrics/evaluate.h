// Accuracy of models on a data set (pare/evaluate.h has samples).
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "pare/data/dataset.h"
#include "pare/evaluate.h"  // IWYU pragma: export
#include "pare/graph.h"
#include "pare/metrics/accuracy.h"
#include "pare/metrics/multilabel.h"

namespace pare {

// Error{shape} unless the model has one input, Error{unsupported} unless that takes floating-point numbers, as
// normalised images are.
void check_image_input(const Graph& graph);

// That and Error{shape} unless it takes the data's images.
void check_images(const Graph& graph, const Dataset& data);

// Error{shape}, at the value of the scores, when there are fewer scores than the data has classes (multi-label: another
// number of them).
void check_score_count(const std::string& value, int64_t scores, const Dataset& data);

// Error{shape} of both, where it is known before a run how many scores the model gives.
void check_classes(const Graph& graph, const Dataset& data);

// What a user should know about a model whose metadata names another mean or std than that of the images it is shown.
std::vector<std::string> normalization_notes(const Graph& model, const std::vector<double>& mean,
                                             const std::vector<double>& std);

// The graphs are prepared for inference (passes/for_inference.h). Error{shape} when a model does not take the data's
// images or has fewer outputs than the data has classes (multi-label, and folders whose classes it has not learned, as
// their directories have no order: another number of them). Error{usage} when it learned them in another order.
Evaluation evaluate(const std::vector<Graph>& models, const Dataset& data, const EvaluateOptions& options = {},
                    Observer& observer = unobserved());

// The same, reported to a function.
struct WithProgress {
  std::function<void(int64_t done, int64_t all)> progress;
};
Evaluation evaluate(const std::vector<Graph>& models, const Dataset& data, const WithProgress& reporting);

}  // namespace pare
