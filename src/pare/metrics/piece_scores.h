// Scores of models on samples, in pieces that are handed out one by one to workers which each run whole forwards on one
// thread: there is nothing to wait for inside a layer, and whoever computes a piece also makes it.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "pare/evaluate.h"
#include "pare/run.h"

namespace pare {

class PieceScores {
 public:
  // The graphs are prepared for inference (passes/for_inference.h).
  PieceScores(const std::vector<Graph>& models, const EvaluateOptions& options);

  // Asked for every piece: is this a number of scores that goes with the labels?
  std::function<void(const Graph& graph, int64_t scores)> check;

  // Every thread runs a piece that does not count: the first run chooses kernels and fetches memory.
  void warm_up(const Samples& samples);
  // Adds samples; `all` is how many there will be, 0 where that is not known.
  void add(const Samples& samples, int64_t all, Observer& observer);
  // So many samples keep every thread busy for a few pieces.
  int64_t at_once() const;
  Evaluation finish() const;

 private:
  // What one piece has to say of each model: sums, or the logits where a metric needs all samples at once.
  struct Piece {
    std::vector<ClassificationMetrics> sums;
    std::vector<at::Tensor> logits;
    at::Tensor labels;
  };

  size_t rows() const { return programs_.size() + (options_.ensemble ? 1 : 0); }
  Piece score(const std::vector<at::Tensor>& inputs, const at::Tensor& labels) const;
  Piece scored(const Samples& samples, int64_t begin) const;
  at::Tensor logits_of(const Program& program, const std::vector<at::Tensor>& inputs) const;
  void keep(Piece piece);

  std::vector<Program> programs_;
  EvaluateOptions options_;
  int64_t piece_;
  int threads_;
  // Joined in the order of the pieces, so that results do not depend on who computed what.
  std::vector<ClassificationMetrics> sums_;
  std::vector<std::vector<at::Tensor>> logits_;
  std::vector<at::Tensor> labels_;
  int64_t samples_ = 0;
  double seconds_ = 0;
};

}  // namespace pare
