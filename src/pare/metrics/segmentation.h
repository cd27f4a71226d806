// Segmentation metrics of models over samples whose labels are masks (pare/evaluate.h has the definitions).
#pragma once

#include <functional>
#include <vector>

#include "pare/evaluate.h"
#include "pare/metrics/piece_outputs.h"

namespace pare {

// int64 [n, height, width]: the class of each pixel, −1 where a score is NaN. `outputs` as SegmentationMetrics::add
// takes them; Error{shape} for any other.
at::Tensor predicted_pixels(const at::Tensor& outputs, int64_t height, int64_t width, double threshold);

// Adds samples to what is known of each model.
class SegmentationScores {
 public:
  SegmentationScores(const std::vector<Graph>& models, const EvaluateOptions& options);

  // Asked for every model: is this a number of scores that goes with the labels?
  std::function<void(const Graph& graph, int64_t scores)> check;

  void add(const Samples& samples, Observer& observer);
  Evaluation finish() const;

 private:
  std::vector<SegmentationMetrics> scored(const PieceOutputs& piece, const Samples& samples) const;

  std::vector<Program> programs_;
  EvaluateOptions options_;
  Evaluation total_;
};

}  // namespace pare
