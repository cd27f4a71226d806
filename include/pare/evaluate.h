// Accuracy of models on labelled samples, and one page of what runs have found.
//
//   double top1 = pare::evaluate(model, samples).metric("top1");
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/samples.h"

namespace pare {

class OptionVisitor;

struct EvaluateOptions {
  int64_t batch = 1000;    // samples that run at once, at most
  bool ensemble = false;   // also the average of the models' class probabilities
  double threshold = 0.5;  // multi-label: a class is predicted where its logit is at least this

  void describe(OptionVisitor& options);
};

// Of single-label samples. Sums over batches; merge() joins those of several workers.
struct ClassificationMetrics {
  int64_t samples = 0;
  int64_t top1_correct = 0;
  int64_t top5_correct = 0;  // top C where there are fewer than 5 classes
  double loss_sum = 0;

  void add(const at::Tensor& logits, const at::Tensor& labels);
  void merge(const ClassificationMetrics& other);

  // Fractions and the mean loss; NaN without samples.
  double top1() const;
  double top5() const;
  double loss() const;
};

// Of multi-label samples.
struct MultiLabelMetrics {
  double sample_precision = 0;
  double class_precision = 0;
  double f1 = 0;
  double macro_f1 = 0;
  double loss = 0;
};

// The metrics of a model under their names, the one that matters most first: top1, top5, loss; or map, class-map, f1,
// macro-f1, loss.
using MetricList = std::vector<std::pair<std::string, double>>;

// Of single-label samples `models` is filled, of multi-label samples `multi_label`; in the order of the models, the
// ensemble last where asked for.
struct Evaluation {
  std::vector<ClassificationMetrics> models;
  std::vector<MultiLabelMetrics> multi_label;
  double seconds = 0;  // making batches included, preparing models not
  int64_t samples = 0;

  MetricList metrics(size_t model = 0) const;
  double metric(const std::string& name, size_t model = 0) const;  // NaN: there is none
};

MetricList metrics_of(const Evaluation& evaluation, size_t model);
MetricList metrics_of(const ClassificationMetrics& metrics);
MetricList metrics_of(const MultiLabelMetrics& metrics);
double metric_of(const MetricList& metrics, const std::string& name);  // NaN: there is none
std::vector<std::string> metric_names(bool multi_label);

// Models are prepared for inference and run in pieces, one thread each. Error{usage} for samples without labels;
// Error{shape} when a model does not take them, or a label is none of its scores.
Evaluation evaluate(const std::vector<Graph>& models, const Samples& samples, const EvaluateOptions& options = {},
                    Observer& observer = unobserved());
Evaluation evaluate(const Graph& model, const Samples& samples, const EvaluateOptions& options = {},
                    Observer& observer = unobserved());
// Over a stream, with memory for a few pieces; multi-label metrics keep all scores.
Evaluation evaluate(const std::vector<Graph>& models, const SampleStream& samples, const EvaluateOptions& options = {},
                    Observer& observer = unobserved());

struct ReportOptions {
  std::string title = "pare report";
};

// What runs have found, as one self-contained HTML page: tables, curves, heat maps. `runs` are run
// directories, directories of them, or records; a record that cannot be read is left out, with a note.
std::string report(const std::vector<std::string>& runs, const ReportOptions& options = {},
                   Observer& observer = unobserved());

}  // namespace pare
