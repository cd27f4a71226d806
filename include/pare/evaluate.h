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
  double threshold = 0.5;  // several labels or a mask by one score: a class is predicted where it is at least this
  // Labels are boxes: how outputs become boxes, by name (box_decoders()) or a file that says it (docs/detection.md).
  std::string decoder;

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

// Of samples with a class for each pixel. Sums over batches; merge() joins those of several workers.
struct SegmentationMetrics {
  at::Tensor
      confusion;  // int64 [classes, classes + 1]: pixels of a label and of no prediction (NaN), class 0, class 1 …

  // Scores [n, classes, h, w], one score for each pixel (class 1 from `threshold` on, else 0), or classes as integers
  // [n, h, w]; masks uint8 [n, H, W], 255 = void, which is not counted. Outputs are brought to the size of the masks:
  // scores bilinearly, before the class is chosen, classes by the nearest.
  void add(const at::Tensor& outputs, const at::Tensor& masks, double threshold = 0.5);
  void merge(const SegmentationMetrics& other);

  // TP / (TP + FP + FN) of every class, NaN of those that no mask has. Means are over the classes that masks have, so
  // that they are the same for every model. NaN without pixels.
  std::vector<double> iou() const;
  double miou() const;
  double pixel_accuracy() const;
  double mean_accuracy() const;  // of the recalls of the classes
};

// Of samples with boxes, as COCO defines them: the average precision at 101 recalls, of every class and of
// intersections over unions of 0.5, 0.55 … 0.95, for boxes of every size and the 100 best detections of a picture; the
// recall is their mean too. NaN without a box to find.
struct DetectionMetrics {
  double map = 0;    // over classes and overlaps
  double map50 = 0;  // over classes, at an overlap of 0.5
  double map75 = 0;
  double recall = 0;            // the largest, over classes and overlaps
  std::vector<double> classes;  // average precision of each over the overlaps, NaN of those without a box
};

// The metrics of a model under their names, the one that matters most first: top1, top5, loss; or map, class-map, f1,
// macro-f1, loss; or miou, pixel-accuracy, mean-accuracy; or box-map, box-map50, box-map75, box-recall.
using MetricList = std::vector<std::pair<std::string, double>>;

// Of samples with one class `models` is filled, of others what their labels say (pare/samples.h); in the order of the
// models, the ensemble last where asked for.
struct Evaluation {
  std::vector<ClassificationMetrics> models;
  std::vector<MultiLabelMetrics> multi_label;
  std::vector<SegmentationMetrics> segmentation;
  std::vector<DetectionMetrics> detection;
  double seconds = 0;  // making batches included, preparing models not
  int64_t samples = 0;

  MetricList metrics(size_t model = 0) const;
  double metric(const std::string& name, size_t model = 0) const;  // NaN: there is none
};

MetricList metrics_of(const Evaluation& evaluation, size_t model);
MetricList metrics_of(const ClassificationMetrics& metrics);
MetricList metrics_of(const MultiLabelMetrics& metrics);
MetricList metrics_of(const SegmentationMetrics& metrics);
MetricList metrics_of(const DetectionMetrics& metrics);
double metric_of(const MetricList& metrics, const std::string& name);  // NaN: there is none
std::vector<std::string> metric_names(LabelKind labels);

std::vector<std::string> box_decoders();

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
