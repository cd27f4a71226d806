#include "pare/metrics/segmentation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "pare/analysis/scores.h"
#include "pare/error.h"
#include "pare/passes/for_inference.h"
#include "pare/passes/working_form.h"

namespace pare {

namespace {

constexpr int64_t kVoid = 255;
constexpr double kNoPixels = std::numeric_limits<double>::quiet_NaN();

at::Tensor resized(const at::Tensor& maps, int64_t height, int64_t width) {
  if (maps.size(2) == height && maps.size(3) == width) return maps;
  return at::upsample_bilinear2d(maps, {height, width}, /*align_corners=*/false);
}

at::Tensor chosen_classes(const at::Tensor& scores) { return scores.argmax(1).masked_fill_(scores.isnan().any(1), -1); }

at::Tensor by_threshold(const at::Tensor& scores, double threshold) {
  const at::Tensor score = scores.squeeze(1);
  return (score >= threshold).to(at::kLong).masked_fill_(score.isnan(), -1);
}

// Classes as integers, by the pixel under the centre of each place.
at::Tensor nearest_classes(const at::Tensor& classes, int64_t height, int64_t width) {
  if (classes.size(1) == height && classes.size(2) == width) return classes.to(at::kLong);
  const auto places = [](int64_t from, int64_t to) {
    return at::floor_divide((2 * at::arange(to) + 1) * from, 2 * to);
  };
  return classes.index_select(1, places(classes.size(1), height))
      .index_select(2, places(classes.size(2), width))
      .to(at::kLong);
}

at::Tensor padded(const at::Tensor& confusion, int64_t classes) {
  at::Tensor out = at::zeros({classes, classes + 1}, at::kLong);
  if (confusion.defined()) out.narrow(0, 0, confusion.size(0)).narrow(1, 0, confusion.size(1)).copy_(confusion);
  return out;
}

}  // namespace

at::Tensor predicted_pixels(const at::Tensor& outputs, int64_t height, int64_t width, double threshold) {
  const bool classes = at::isIntegralType(outputs.scalar_type(), /*includeBool=*/true);
  if (classes && outputs.dim() == 4 && outputs.size(1) == 1) return nearest_classes(outputs.squeeze(1), height, width);
  if (classes && outputs.dim() == 3) return nearest_classes(outputs, height, width);
  if (!classes && outputs.dim() == 4 && outputs.size(1) > 0 && outputs.numel() > 0) {
    const at::Tensor scores = resized(outputs.to(at::kFloat), height, width);
    return scores.size(1) == 1 ? by_threshold(scores, threshold) : chosen_classes(scores);
  }
  throw Error(ErrorKind::shape, "outputs",
              "are {} {}, expected scores [n, classes, h, w] or classes as integers [n, h, w] for masks",
              c10::toString(outputs.scalar_type()), fmt::join(outputs.sizes(), "x"));
}

void SegmentationMetrics::add(const at::Tensor& outputs, const at::Tensor& masks, double threshold) {
  if (masks.dim() != 3 || masks.scalar_type() != at::kByte || outputs.dim() == 0 || outputs.size(0) != masks.size(0))
    throw Error(ErrorKind::shape, "masks", "{} {} for outputs {}, expected uint8 [n, height, width]",
                c10::toString(masks.scalar_type()), fmt::join(masks.sizes(), "x"), fmt::join(outputs.sizes(), "x"));
  const at::Tensor predicted = predicted_pixels(outputs, masks.size(1), masks.size(2), threshold);
  const at::Tensor counted = masks != kVoid;
  const at::Tensor labels = masks.masked_select(counted).to(at::kLong);
  const at::Tensor found = predicted.masked_select(counted);
  if (labels.numel() == 0) return;
  if (found.min().item<int64_t>() < -1 || found.max().item<int64_t>() >= kVoid)
    throw Error(ErrorKind::shape, "outputs", "have the class {}, expected 0 to {}",
                found.max().item<int64_t>() >= kVoid ? found.max().item<int64_t>() : found.min().item<int64_t>(),
                kVoid - 1);
  int64_t classes = std::max(labels.max().item<int64_t>(), found.max().item<int64_t>()) + 1;
  if (outputs.dim() == 4 && outputs.is_floating_point()) classes = std::max({classes, outputs.size(1), int64_t{2}});
  const at::Tensor cells = at::bincount(labels * (classes + 1) + found + 1, {}, classes * (classes + 1));
  merge({.confusion = cells.view({classes, classes + 1})});
}

void SegmentationMetrics::merge(const SegmentationMetrics& other) {
  if (!other.confusion.defined()) return;
  const int64_t classes = std::max(confusion.defined() ? confusion.size(0) : 0, other.confusion.size(0));
  confusion = padded(confusion, classes) + padded(other.confusion, classes);
}

namespace {

// Of each class, in pixels: labelled so, predicted so, both.
struct PixelCounts {
  std::vector<double> labelled, predicted, both;

  explicit PixelCounts(const at::Tensor& confusion) {
    if (!confusion.defined()) return;
    const at::Tensor by_class = confusion.narrow(1, 1, confusion.size(0));
    for (int64_t c = 0; c < confusion.size(0); ++c) {
      labelled.push_back(static_cast<double>(confusion[c].sum().item<int64_t>()));
      predicted.push_back(static_cast<double>(by_class.select(1, c).sum().item<int64_t>()));
      both.push_back(static_cast<double>(by_class[c][c].item<int64_t>()));
    }
  }
};

double mean_of_defined(const std::vector<double>& values) {
  double sum = 0, count = 0;
  for (const double value : values)
    if (value == value) sum += value, ++count;
  return count > 0 ? sum / count : kNoPixels;
}

}  // namespace

std::vector<double> SegmentationMetrics::iou() const {
  const PixelCounts pixels(confusion);
  std::vector<double> result;
  for (size_t c = 0; c < pixels.both.size(); ++c)
    result.push_back(pixels.labelled[c] == 0
                         ? kNoPixels
                         : pixels.both[c] / (pixels.labelled[c] + pixels.predicted[c] - pixels.both[c]));
  return result;
}

double SegmentationMetrics::miou() const { return mean_of_defined(iou()); }

double SegmentationMetrics::pixel_accuracy() const {
  const PixelCounts pixels(confusion);
  double right = 0, all = 0;
  for (size_t c = 0; c < pixels.both.size(); ++c) right += pixels.both[c], all += pixels.labelled[c];
  return all > 0 ? right / all : kNoPixels;
}

double SegmentationMetrics::mean_accuracy() const {
  const PixelCounts pixels(confusion);
  std::vector<double> recalls;
  for (size_t c = 0; c < pixels.both.size(); ++c)
    recalls.push_back(pixels.labelled[c] == 0 ? kNoPixels : pixels.both[c] / pixels.labelled[c]);
  return mean_of_defined(recalls);
}

SegmentationScores::SegmentationScores(const std::vector<Graph>& models, const EvaluateOptions& options)
    : options_(options) {
  if (options.ensemble)
    throw Error(ErrorKind::usage, OptionName{"ensemble"}, "averages the scores of pictures' classes, not of pixels");
  const at::NoGradGuard no_grad;
  for (const auto& model : models) programs_.emplace_back(for_inference(working_form(scores_only(model))));
  total_.segmentation.resize(models.size());
}

std::vector<SegmentationMetrics> SegmentationScores::scored(const PieceOutputs& piece, const Samples& samples) const {
  const at::Tensor masks = samples.labels(piece.begin, piece.end);
  std::vector<SegmentationMetrics> metrics;
  for (size_t m = 0; m < programs_.size(); ++m) {
    const at::Tensor& scores = piece.outputs[m].at(0);
    if (check && scores.is_floating_point() && scores.dim() == 4 && scores.size(1) > 1)
      check(programs_[m].graph(), scores.size(1));
    metrics.emplace_back().add(scores, masks, options_.threshold);
  }
  return metrics;
}

void SegmentationScores::add(const Samples& samples, Observer& observer) {
  const auto start = std::chrono::steady_clock::now();
  over_pieces<std::vector<SegmentationMetrics>>(
      programs_, samples, "evaluating", observer, [&](const PieceOutputs& piece) { return scored(piece, samples); },
      [&](std::vector<SegmentationMetrics> metrics) {
        for (size_t m = 0; m < metrics.size(); ++m) total_.segmentation[m].merge(metrics[m]);
      });
  total_.samples += samples.size;
  total_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Evaluation SegmentationScores::finish() const { return total_; }

}  // namespace pare
