// Training a student that learns from a teacher: distillation into another network, and the fine-tuning of pruned ones.
#pragma once

#include "pare/distill/distillation.h"
#include "pare/workflow/train.h"

namespace pare {

struct Lesson {
  const Graph& teacher;
  const Graph& student;
  const DistillationOptions& options;
};

// `job` as for plain training; its objective is set here, and teacher and options join its definition.
TrainingOutcome distill(const Lesson& lesson, const Dataset& data, const TrainingOptions& training,
                        const Trainer& trainer, TrainingJob job = {.kind = "distill"});

}  // namespace pare
