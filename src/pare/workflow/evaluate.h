// Accuracy of models on a data set.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "pare/core/graph.h"
#include "pare/data/dataset.h"
#include "pare/metrics/accuracy.h"
#include "pare/metrics/multilabel.h"

namespace pare {

struct EvaluateOptions {
  int64_t batch = 1000;    // images run at once at the most
  bool ensemble = false;   // also the average of the models' class probabilities
  double threshold = 0.5;  // multi-label: a class is predicted where its logit is at least this
  std::function<void(int64_t done, int64_t all)> progress;
};

// Of single-label data `models` is filled, of multi-label data `multi_label`; in the order of the models, the ensemble
// last where asked for.
struct Evaluation {
  std::vector<ClassificationMetrics> models;
  std::vector<MultiLabelMetrics> multi_label;
  double seconds = 0;  // making batches included, loading models not
  int64_t samples = 0;
};

// The metrics of model m under their names, the one that matters most first: top1, top5, loss; or map, class-map, f1,
// macro-f1, loss.
using MetricList = std::vector<std::pair<std::string, double>>;
MetricList metrics_of(const Evaluation& evaluation, size_t m);
MetricList metrics_of(const ClassificationMetrics& metrics);
MetricList metrics_of(const MultiLabelMetrics& metrics);
double metric_of(const MetricList& metrics, const std::string& name);  // NaN: there is none
std::vector<std::string> metric_names(bool multi_label);

// Error{shape} unless the model has one input, Error{unsupported} unless that takes floating-point numbers, as
// normalised images are.
void check_image_input(const Graph& graph);

// That and Error{shape} unless it takes the data's images.
void check_images(const Graph& graph, const Dataset& data);

// Error{shape}, at the value of the scores, when these are fewer than the data has classes (multi-label: not just as
// many).
void check_score_count(const std::string& value, int64_t scores, const Dataset& data);

// Error{shape} of both, where it is known before a run how many scores the model gives.
void check_classes(const Graph& graph, const Dataset& data);

// What a user should know of a model whose metadata names another mean or std than the images have that it is shown.
std::vector<std::string> normalization_notes(const Graph& model, const std::vector<double>& mean,
                                             const std::vector<double>& std);

// The graphs are prepared for inference (passes/for_inference.h). Error{shape} when a model does not take the data's
// images or has fewer outputs than the data has classes (multi-label, and folders whose classes it has not learned, as
// their directories say no order: not just as many). Error{usage} when it learned them in another order.
Evaluation evaluate(const std::vector<Graph>& models, const Dataset& data, const EvaluateOptions& options = {});

}  // namespace pare
