#include "pare/metrics/evaluate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "pare/analysis/scores.h"
#include "pare/analysis/shapes.h"
#include "pare/data/data_options.h"
#include "pare/data/loader.h"
#include "pare/error.h"
#include "pare/metrics/box_decoder.h"
#include "pare/metrics/detection.h"
#include "pare/metrics/piece_scores.h"
#include "pare/metrics/segmentation.h"
#include "pare/samples/samples.h"

namespace pare {

void check_image_input(const Graph& graph) {
  if (graph.inputs.size() != 1)
    throw Error(ErrorKind::shape, graph.name, "has {} inputs, expected one that takes images", graph.inputs.size());
  if (!at::isFloatingType(graph.inputs[0].dtype))
    throw Error(ErrorKind::unsupported, graph.inputs[0].name,
                "the model takes {}, expected floating-point numbers: images are normalised",
                at::toString(graph.inputs[0].dtype));
}

void check_images(const Graph& graph, const Dataset& data) {
  check_image_input(graph);
  const auto& dims = graph.inputs[0].dims;
  if (!dims) return;
  const Shape image = {data.channels(), data.height(), data.width()};
  const bool flat = dims->size() == 2;
  Shape wanted;
  for (size_t i = 1; i < dims->size(); ++i) wanted.push_back((*dims)[i].size);
  bool fits = flat || wanted.size() == 3;
  for (size_t i = 0; fits && !flat && i < 3; ++i) fits = wanted[i] < 0 || wanted[i] == image[i];
  if (flat) fits = wanted[0] < 0 || wanted[0] == image[0] * image[1] * image[2];
  if (!fits)
    throw Error(ErrorKind::shape, graph.inputs[0].name, "the model takes {}, the images of {} are {}",
                to_string(wanted), data.name, to_string(image));
}

void check_classes(const Graph& graph, const Dataset& data) {
  check_images(graph, data);
  Shape image = {1, data.channels(), data.height(), data.width()};
  const auto& dims = graph.inputs[0].dims;
  if (dims && dims->size() == 2) image = {1, image[1] * image[2] * image[3]};
  const std::string scores = score_value(graph);
  const Shapes shapes = infer_shapes(graph, {.inputs = {{graph.inputs[0].name, image}}});
  const TensorType* type = shapes.find(scores);
  if (type == nullptr || type->dims.empty()) return;  // a run will say what is wrong
  check_score_count(scores, type->count() / std::max<int64_t>(type->dims[0], 1), data);
}

void check_score_count(const std::string& value, int64_t scores, const Dataset& data) {
  const auto classes = static_cast<int64_t>(data.classes.size());
  if (data.multi_label() ? scores != classes : scores < classes)
    throw Error(ErrorKind::shape, value, "the model gives {} scores for an image, {} has {} classes", scores, data.name,
                classes);
}

std::vector<std::string> normalization_notes(const Graph& model, const std::vector<double>& mean,
                                             const std::vector<double>& std) {
  std::vector<std::string> notes;
  const auto compare = [&](const std::string& what, const std::vector<double>& used) {
    const std::vector<double> own = stored_values(model, "pare." + what);
    if (!own.empty() && own != used)
      notes.push_back(fmt::format("learned images with a {} of {}; here it is {}", what, fmt::join(own, ", "),
                                  fmt::join(used, ", ")));
  };
  compare("mean", mean);
  compare("std", std);
  return notes;
}

namespace {

// Error{shape} where scores are not those of the data's classes.
void check_scores(const Graph& graph, int64_t scores, const Dataset& data) {
  const auto classes = static_cast<int64_t>(data.classes.size());
  check_score_count(graph.outputs[0].name, scores, data);
  // The labels of a known data set are places among the scores; names are not, unless it learned them.
  if (data.labels_by_name && scores > classes && stored_classes(graph) != data.classes)
    throw Error(ErrorKind::shape, graph.outputs[0].name,
                "the model gives {} scores for an image, the {} has {} classes: name all classes in the order of "
                "the scores, one per line, in a file classes.txt beside them or by `class-map`",
                scores, data.name, classes);
}

}  // namespace

std::vector<std::string> metric_names(LabelKind labels) {
  switch (labels) {
    case LabelKind::classes: return {"map", "class-map", "f1", "macro-f1", "loss"};
    case LabelKind::masks: return {"miou", "pixel-accuracy", "mean-accuracy"};
    case LabelKind::boxes: return {"box-map", "box-map50", "box-map75", "box-recall"};
    default: return {"top1", "top5", "loss"};
  }
}

namespace {

MetricList named(LabelKind labels, const std::vector<double>& values) {
  MetricList result;
  for (const auto& name : metric_names(labels)) result.emplace_back(name, values[result.size()]);
  return result;
}

}  // namespace

MetricList metrics_of(const ClassificationMetrics& metrics) {
  return named(LabelKind::one_class, {metrics.top1(), metrics.top5(), metrics.loss()});
}

MetricList metrics_of(const MultiLabelMetrics& metrics) {
  return named(LabelKind::classes,
               {metrics.sample_precision, metrics.class_precision, metrics.f1, metrics.macro_f1, metrics.loss});
}

MetricList metrics_of(const SegmentationMetrics& metrics) {
  return named(LabelKind::masks, {metrics.miou(), metrics.pixel_accuracy(), metrics.mean_accuracy()});
}

MetricList metrics_of(const DetectionMetrics& metrics) {
  return named(LabelKind::boxes, {metrics.map, metrics.map50, metrics.map75, metrics.recall});
}

MetricList Evaluation::metrics(size_t model) const {
  if (!segmentation.empty()) return metrics_of(segmentation.at(model));
  if (!detection.empty()) return metrics_of(detection.at(model));
  return multi_label.empty() ? metrics_of(models.at(model)) : metrics_of(multi_label.at(model));
}

double Evaluation::metric(const std::string& name, size_t model) const { return metric_of(metrics(model), name); }

MetricList metrics_of(const Evaluation& evaluation, size_t model) { return evaluation.metrics(model); }

double metric_of(const MetricList& metrics, const std::string& name) {
  const auto found = std::ranges::find(metrics, name, &MetricList::value_type::first);
  return found == metrics.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

namespace {

// The same names in another order: every label would be that of another class.
void check_class_order(const Graph& model, const Dataset& data) {
  const std::vector<std::string> own = stored_classes(model);
  if (own != data.classes && std::ranges::is_permutation(own, data.classes))
    throw Error(ErrorKind::usage, OptionName{"class-map"}, "the model has the classes in another order: {}, …",
                own.front());
}

}  // namespace

namespace {

template <typename Scores>
Evaluation evaluated(const std::vector<Graph>& models, const Samples& samples, const EvaluateOptions& options,
                     Observer& observer, const std::function<void(const Graph&, int64_t)>& check = {}) {
  Scores scores(models, options);
  if constexpr (requires { scores.check; }) scores.check = check;
  scores.add(samples, observer);
  return scores.finish();
}

LabelKind kind_of(const Samples& samples) {
  if (samples.size == 0 || !samples.labelled()) return LabelKind::one_class;  // what is missing is said later
  return label_kind(samples.labels(0, 1));
}

// These and all that follow in the stream, at most so many in memory.
void add_all(Samples some, const SampleStream& stream, int64_t at_once,
             const std::function<void(const Samples&)>& add) {
  while (some.size > 0) {
    add(some);
    some = {};  // before there are others
    some = next_samples(stream, at_once);
  }
}

}  // namespace

void EvaluateOptions::describe(OptionVisitor& options) {
  options.field("batch", batch, "images that run at once, at most");
  options.essential().field("ensemble", ensemble, "also evaluate the average of all models' predictions");
  options.field("threshold", threshold,
                "several labels, or a mask by one score: a class is predicted where its logit is at least this");
  options.field("decoder", decoder,
                fmt::format("labels are boxes: how outputs become boxes, one of {} or a TOML file",
                            fmt::join(box_decoders(), ", ")));
}

Evaluation evaluate(const std::vector<Graph>& models, const Dataset& data, const EvaluateOptions& options,
                    Observer& observer) {
  for (const auto& model : models) {
    check_images(model, data);
    check_class_order(model, data);
  }
  const Samples images{
      .size = data.size(),
      .inputs = [&](int64_t begin,
                    int64_t end) { return std::vector<at::Tensor>{make_batch(data, begin, end).images}; },
      .labels = [&](int64_t begin, int64_t end) { return data.labels.slice(0, begin, end); }};
  const auto check = [&](const Graph& graph, int64_t found) { check_scores(graph, found, data); };
  if (data.label_kind() == LabelKind::masks)
    return evaluated<SegmentationScores>(models, images, options, observer, check);
  if (data.label_kind() == LabelKind::boxes) return evaluated<DetectionScores>(models, images, options, observer);
  PieceScores scores(models, options);
  scores.check = check;
  scores.warm_up(images);
  scores.add(images, data.size(), observer);
  return scores.finish();
}

Evaluation evaluate(const std::vector<Graph>& models, const Dataset& data, const WithProgress& reporting) {
  struct Reporter : Observer {
    explicit Reporter(const WithProgress& to) : to(to) {}
    void progress(std::string_view, int64_t done, int64_t all) override {
      if (to.progress) to.progress(done, all);
    }
    const WithProgress& to;
  } reporter(reporting);
  return evaluate(models, data, EvaluateOptions{}, reporter);
}

Evaluation evaluate(const std::vector<Graph>& models, const Samples& samples, const EvaluateOptions& options,
                    Observer& observer) {
  if (kind_of(samples) == LabelKind::masks) return evaluated<SegmentationScores>(models, samples, options, observer);
  if (kind_of(samples) == LabelKind::boxes) return evaluated<DetectionScores>(models, samples, options, observer);
  PieceScores scores(models, options);
  scores.warm_up(samples);
  scores.add(samples, samples.size, observer);
  return scores.finish();
}

Evaluation evaluate(const Graph& model, const Samples& samples, const EvaluateOptions& options, Observer& observer) {
  return evaluate(std::vector<Graph>{model}, samples, options, observer);
}

Evaluation evaluate(const std::vector<Graph>& models, const SampleStream& stream, const EvaluateOptions& options,
                    Observer& observer) {
  PieceScores scores(models, options);
  Samples some = next_samples(stream, scores.at_once());
  const LabelKind kind = kind_of(some);
  const auto finished = [&](auto all) {
    add_all(std::move(some), stream, scores.at_once(), [&](const Samples& next) { all.add(next, observer); });
    return all.finish();
  };
  if (kind == LabelKind::masks) return finished(SegmentationScores(models, options));
  if (kind == LabelKind::boxes) return finished(DetectionScores(models, options));
  add_all(std::move(some), stream, scores.at_once(), [&](const Samples& next) { scores.add(next, 0, observer); });
  return scores.finish();
}

}  // namespace pare
