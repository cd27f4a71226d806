// COCO's average precision of detections, from the definition (pare/evaluate.h says what it is made of).
//
// In a picture, for each class and each overlap, the detections are taken from the best down, at most 100; each takes
// the box that it overlaps most among those that are not taken yet, if by at least the overlap. A detection that finds
// nothing but a crowd or a difficult box counts neither way. Then all pictures' detections of the class are put in the
// order of their scores: precision at a recall r is the largest at any recall from r on, and the average is that at
// r = 0, 0.01 … 1.
//
// Pure functions and values; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "pare/evaluate.h"
#include "pare/metrics/piece_outputs.h"

namespace pare {

class BoxDecoder;

inline constexpr size_t kOverlaps = 10;  // 0.5, 0.55 … 0.95

// What became of a detection at each overlap.
enum class Verdict : uint8_t { wrong, right, ignored };
struct JudgedDetection {
  double score = 0;
  std::array<Verdict, kOverlaps> verdicts = {};
};

// Of all pictures so far; merge() appends, in the order of the pictures.
struct DetectionTally {
  struct Class {
    int64_t boxes = 0;  // that are to be found
    std::vector<JudgedDetection> detections;
  };
  std::map<int64_t, Class> classes;

  // float [detections, 6], (left, top, right, bottom, score, class); boxes float [M, 6] of BoxField.
  void add(const at::Tensor& detections, const at::Tensor& boxes);
  void merge(DetectionTally other);
  DetectionMetrics metrics() const;
};

// Detections of models over samples whose labels are boxes.
class DetectionScores {
 public:
  // Error{usage} without a decoder.
  DetectionScores(const std::vector<Graph>& models, const EvaluateOptions& options);
  DetectionScores(DetectionScores&&) noexcept;
  ~DetectionScores();

  void add(const Samples& samples, Observer& observer);
  Evaluation finish() const;

 private:
  std::vector<Program> programs_;
  std::unique_ptr<BoxDecoder> decoder_;
  std::vector<DetectionTally> tallies_;
  int64_t samples_ = 0;
  double seconds_ = 0;
};

}  // namespace pare
