#include "pare/workflow/distill.h"

#include <nlohmann/json.hpp>

#include "pare/metrics/evaluate.h"
#include "pare/samples/samples.h"

namespace pare {

void DistillOptions::describe(OptionVisitor& options) {
  distillation.describe(options);
  training.describe(options);
}

TrainingResult distill(const Graph& student, const Graph& teacher, const Samples& samples,
                       const DistillOptions& options, Observer& observer) {
  return result_of(distill({teacher, student, options.distillation}, dataset_of(samples), options.training,
                           observed_training(observer)));
}

TrainingOutcome distill(const Lesson& lesson, const Dataset& data, const TrainingOptions& training,
                        const Trainer& trainer, TrainingJob job) {
  check_images(lesson.teacher, data);
  check_images(lesson.student, data);
  Distillation objective(lesson.teacher, lesson.student, lesson.options, training.label_smoothing);
  JsonWriter options;
  DistillationOptions(lesson.options).describe(options);
  job.definition = nlohmann::json{
      {"method", job.definition},
      {"teacher", fingerprint(lesson.teacher)},
      {"distillation",
       options.json()}}.dump();
  job.objective = &objective;
  return trainer(lesson.student, data, training, std::move(job));
}

}  // namespace pare
