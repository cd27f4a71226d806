// The experiment of attribution-preserving compression (Park et al. 2020) on images whose masks say which pixels are
// the object: does a compressed network still look where the original looks?
//
//   teacher        VGG with batch norms and dropout
//   distillation   into a quarter of the widths, from random values; soft targets, and each matching beside them
//   structured     70 % of the filters of the last blocks removed by l1, fine-tuned
//   unstructured   rounds of magnitude pruning over all convolutions, fine-tuned after each
//
// Every training is a run of its own (train/run_store.h), so that an interrupted experiment goes on where it was.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/roar.h"
#include "pare/workflow/localize.h"
#include "pare/workflow/train.h"

namespace pare {

// The images and the network.
struct AttributionTask {
  std::string name = "scenes";
  std::string data = "scenes";
  std::string test = "test";             // the split that has masks
  std::string classified = "test";       // the split that mAP and F1 are of
  std::string augment = "standard";      // of the teacher's training
  std::string student_augment = "none";  // of all others
  std::string preprocess;                // of pictures
  std::string arch = "vgg9-bn";
  int64_t side = 56;
  int64_t classes = 10;
  std::vector<std::string> cut = {"features.14", "features.17", "features.20", "features.23"};  // of their filters
};
// The paper's own: VGG-16 on PASCAL VOC 2012, `data` being voc:DIR. As released: trained on random crops of the full
// pictures and their mirror images, measured on pictures stretched to the square; mAP and F1 of the classification
// split, maps on the images that have masks. Its teacher began with ImageNet's weights; here it begins with random
// ones.
AttributionTask voc_task(const std::string& data);

struct AttributionScale {
  int64_t teacher_images = 12000;  // 0: all there are
  int64_t student_images = 5000;
  int64_t test_images = 1000;
  int64_t teacher_epochs = 30;
  int64_t student_epochs = 30;
  int64_t filter_epochs = 30;  // of fine-tuning once filters are removed
  int64_t round_epochs = 30;   // after each round of magnitude pruning
  double finetune_lr = 1e-3;
  ScheduleKind finetune_schedule = ScheduleKind::constant;
  int64_t rounds = 16;
  double round_rate = 0.2;  // of the kept weights, removed in each: 1 − 0.8^16 = 0.97
  int64_t roar_epochs = 15;
  std::vector<double> roar_levels = {0.1, 0.3, 0.5, 0.7, 0.9};
  int64_t seeds = 5;
  int64_t roar_seeds = 1;     // classifiers trained for each point, each by the maps of another student
  int64_t pruning_seeds = 5;  // of the two settings that begin with the teacher, and of attention transfer
};
// toy: to see that everything runs; small: few epochs of pruned networks; full: as above.
// Error{usage} otherwise.
AttributionScale attribution_scale(const std::string& name);

// A network measured by one kind of map.
struct AttributionFigures {
  double precision = 0;  // mAP of samples
  double f1 = 0;
  double auc = 0, point = 0;                  // classes present and predicted
  double auc_all = 0, point_all = 0;          // all classes present
  double auc_teacher = 0, point_teacher = 0;  // classes present and predicted by the teacher
  double cosine = 0;                          // to the teacher's maps

  static std::vector<std::string> names();
  std::vector<double> values() const;  // in their order
};

std::vector<SeedMean> means_of(const std::vector<AttributionFigures>& seeds);  // in the order of names()

class AttributionExperiment {
 public:
  // Trainings are kept below `runs`.
  AttributionExperiment(AttributionTask task, AttributionScale scale, const std::string& runs, uint64_t seed,
                        Trainer trainer);

  const AttributionTask& task() const { return task_; }
  const AttributionScale& scale() const { return scale_; }
  const Graph& teacher();  // trained when first asked for
  // `setting` as above, `match` as DistillationOptions has it; "none": soft targets alone, or plain fine-tuning.
  Graph compressed(const std::string& setting, const std::string& match, int64_t seed);
  // Each of the networks, beside the teacher.
  std::vector<AttributionFigures> measure(const std::vector<Graph>& networks, const std::string& map);
  // Of fresh classifiers, one a seed: of images as they are, and with parts of the pixels removed that rankings, one or
  // one a seed, have first.
  RoarPoint retrained();
  RoarCurve retrained_without(const std::string& name, const std::vector<PixelRanking>& rankings,
                              const std::string& fill);
  PixelRanking ranking(const Graph& model);
  std::vector<PixelRanking> random_rankings(const std::string& kind);  // "maps" or "pixels"; one a seed

 private:
  Graph distilled(const std::string& match, int64_t seed);
  Graph structured(const std::string& match, int64_t seed);
  Graph unstructured(const std::string& match, int64_t seed);
  TrainingOptions training(int64_t epochs, int64_t seed) const;
  TrainingOptions gentle(int64_t epochs, int64_t seed) const;
  RoarOptions roar_options() const;
  RoarData roar_data();
  Dataset images(const std::string& split, int64_t count) const;
  Graph network(double width, double dropout, uint64_t seed) const;
  const Dataset& student_images();
  const Dataset& test_images();
  const Dataset& classified_images();

  AttributionTask task_;
  AttributionScale scale_;
  std::string runs_;
  uint64_t seed_;
  Trainer trainer_;
  std::optional<Graph> teacher_;
  std::optional<Dataset> student_images_, test_images_, classified_images_;
};

}  // namespace pare
