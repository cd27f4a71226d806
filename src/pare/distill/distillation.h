// Distillation as an objective of the training loop: with the student's loss on the labels L, the teacher's soft
// targets KD (soft_targets.h) and a matching penalty R (match.h),
//
//   (1 − α) L + α KD + β R
//
// α = 0.9 and T = 4 are the published values for students trained anew; pruned networks are fine-tuned with α = 0. The
// teacher runs in inference mode, the student in training mode; each step runs both once.
#pragma once

#include <string>
#include <vector>

#include "pare/core/options.h"
#include "pare/distill.h"  // IWYU pragma: export
#include "pare/distill/match.h"
#include "pare/distill/teacher.h"
#include "pare/train/method.h"

namespace pare {

class Distillation : public Objective {
 public:
  Distillation(const Graph& teacher, const Graph& student, const DistillationOptions& options,
               double label_smoothing = 0);

  std::vector<std::string> taps() const override;
  Loss operator()(const ForwardPass& pass) override;

  const std::vector<LayerPair>& layers() const { return layers_; }

 private:
  Observation observe_student(const ForwardPass& pass) const;

  DistillationOptions options_;
  double label_smoothing_;
  std::string scores_;         // the student's, before a final Softmax or Sigmoid, as the teacher's are
  const MatchMethod* method_;  // nullptr: none
  double weight_ = 0;
  std::vector<LayerPair> layers_;
  Teacher teacher_;
};

}  // namespace pare
