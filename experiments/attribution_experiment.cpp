#include "experiments/attribution_experiment.h"

#include "pare/data/data_options.h"
#include "pare/error.h"
#include "pare/metrics/evaluate.h"
#include "pare/workflow/distill.h"
#include "pare/workflow/prune.h"
#include "pare/workflow/sparsify.h"
#include "pare/zoo/zoo.h"

namespace pare {

AttributionScale attribution_scale(const std::string& name) {
  if (name == "full") return {};
  if (name == "small")
    return {.teacher_epochs = 10,
            .student_epochs = 30,
            .filter_epochs = 5,
            .round_epochs = 2,
            .finetune_lr = 0.01,
            .finetune_schedule = ScheduleKind::one_cycle,
            .rounds = 3,
            .round_rate = 0.64,
            .roar_epochs = 15,
            .roar_levels = {0.1, 0.3, 0.5},
            .seeds = 3,
            .pruning_seeds = 1};
  if (name == "toy")
    return {.teacher_images = 2000,
            .student_images = 600,
            .test_images = 100,
            .teacher_epochs = 5,
            .student_epochs = 6,
            .filter_epochs = 1,
            .round_epochs = 1,
            .finetune_lr = 0.01,
            .rounds = 2,
            .round_rate = 0.8,
            .roar_epochs = 3,
            .roar_levels = {0.3},
            .seeds = 1,
            .pruning_seeds = 1};
  throw Error(ErrorKind::usage, OptionName{"scale"}, "'{}' is not toy, small or full", name);
}

AttributionTask voc_task(const std::string& data) {
  return {
      .name = "PASCAL VOC",
      .data = data,
      .test = "segmentation",
      .classified = "test",
      .augment = "resized-crop,flip",
      .student_augment = "resized-crop,flip",
      .preprocess = "stretch",
      .arch = "vgg16-bn",
      .side = 227,
      .classes = 20,
      .cut = {"features.0", "features.24", "features.27", "features.30", "features.34", "features.37", "features.40"}};
}

std::vector<std::string> AttributionFigures::names() {
  return {"map", "f1", "auc", "point", "auc all", "point all", "auc teacher", "point teacher", "cosine"};
}

std::vector<double> AttributionFigures::values() const {
  return {precision, f1, auc, point, auc_all, point_all, auc_teacher, point_teacher, cosine};
}

std::vector<SeedMean> means_of(const std::vector<AttributionFigures>& seeds) {
  std::vector<std::vector<double>> values;
  for (const auto& figures : seeds) values.push_back(figures.values());
  return seed_means(values);
}

AttributionExperiment::AttributionExperiment(AttributionTask task, AttributionScale scale, const std::string& runs,
                                             uint64_t seed, Trainer trainer)
    : task_(std::move(task)), scale_(std::move(scale)), runs_(runs), seed_(seed), trainer_(std::move(trainer)) {}

Dataset AttributionExperiment::images(const std::string& split, int64_t count) const {
  DataChoice choice{.data = task_.data, .split = split, .limit = count, .preprocess = task_.preprocess};
  if (task_.data != "scenes") choice.size = task_.side;
  return choice.load({});
}

Graph AttributionExperiment::network(double width, double dropout, uint64_t seed) const {
  return build(task_.arch,
               {.width = width, .classes = task_.classes, .input = {3, task_.side, task_.side}, .dropout = dropout},
               seed);
}

const Dataset& AttributionExperiment::student_images() {
  if (!student_images_) student_images_ = images("train", scale_.student_images);
  return *student_images_;
}

const Dataset& AttributionExperiment::test_images() {
  if (!test_images_) test_images_ = images(task_.test, scale_.test_images);
  return *test_images_;
}

const Dataset& AttributionExperiment::classified_images() {
  if (task_.classified == task_.test) return test_images();
  if (!classified_images_) classified_images_ = images(task_.classified, scale_.test_images);
  return *classified_images_;
}

// SGD with Nesterov's momentum, one cycle up to 0.1.
TrainingOptions AttributionExperiment::training(int64_t epochs, int64_t seed) const {
  TrainingOptions options;
  options.runs = runs_;
  TrainOptions& train = options.train;
  train.epochs = epochs;
  train.optimizer.lr = 0.1;
  train.optimizer.nesterov = true;
  train.optimizer.weight_decay = 1e-4;
  train.schedule.peak = 0.15;
  train.augment = task_.student_augment;
  train.seed = seed_ + static_cast<uint64_t>(seed);
  return options;
}

// Of networks that were pruned.
TrainingOptions AttributionExperiment::gentle(int64_t epochs, int64_t seed) const {
  TrainingOptions options = training(epochs, seed);
  options.train.optimizer.lr = scale_.finetune_lr;
  options.train.optimizer.nesterov = false;
  options.train.schedule.schedule = scale_.finetune_schedule;
  return options;
}

// Augmented images, as the paper trains it: without them a teacher knows its images too well, and its maps
// are no longer those of the objects.
const Graph& AttributionExperiment::teacher() {
  if (teacher_) return *teacher_;
  TrainingOptions options = training(scale_.teacher_epochs, 0);
  options.train.augment = task_.augment;
  teacher_ = trainer_(network(1, 0.5, seed_), images("train", scale_.teacher_images), options,
                      {.kind = "attribution", .what = "teacher", .awaited = true})
                 .graph;
  return *teacher_;
}

Graph AttributionExperiment::compressed(const std::string& setting, const std::string& match, int64_t seed) {
  if (setting == "distillation") return distilled(match, seed);
  if (setting == "structured") return structured(match, seed);
  if (setting == "unstructured") return unstructured(match, seed);
  throw Error(ErrorKind::usage, "setting", "'{}' is not distillation, structured or unstructured", setting);
}

Graph AttributionExperiment::distilled(const std::string& match, int64_t seed) {
  const Graph student = network(0.25, 0.5, seed_ + 100 + static_cast<uint64_t>(seed));
  const DistillationOptions options{.match = match};
  return distill({teacher(), student, options}, student_images(), training(scale_.student_epochs, seed), trainer_,
                 {.kind = "attribution", .what = fmt::format("distillation, {}, seed {}", match, seed)})
      .graph;
}

Graph AttributionExperiment::structured(const std::string& match, int64_t seed) {
  PruneJob cut;
  cut.channels = 0.7;
  cut.layers = task_.cut;
  cut.compensate = "none";
  cut.round_to = 1;
  const Graph pruned = prune(teacher(), cut).graph;
  TrainingJob job{.kind = "attribution", .what = fmt::format("structured, {}, seed {}", match, seed)};
  const TrainingOptions finetune = gentle(scale_.filter_epochs, seed);
  if (match == "none") return trainer_(pruned, student_images(), finetune, std::move(job)).graph;
  const DistillationOptions options{.alpha = 0, .match = match};
  return distill({teacher(), pruned, options}, student_images(), finetune, trainer_, std::move(job)).graph;
}

Graph AttributionExperiment::unstructured(const std::string& match, int64_t seed) {
  SparsifyOptions options;
  options.method = "imp-continued";
  options.rounds = scale_.rounds;
  options.round_rate = scale_.round_rate;
  options.distill.match = match;
  options.training = gentle(scale_.round_epochs, seed);
  const Trainer named = [&](const Graph& graph, const Dataset& data, const TrainingOptions& training, TrainingJob job) {
    job.what = fmt::format("unstructured, {}, seed {}, {}", match, seed, job.what);
    return trainer_(graph, data, training, std::move(job));
  };
  return sparsify(teacher(), true, student_images(), options, named).graph;
}

std::vector<AttributionFigures> AttributionExperiment::measure(const std::vector<Graph>& networks,
                                                               const std::string& map) {
  std::vector<Graph> models = {teacher()};
  models.insert(models.end(), networks.begin(), networks.end());
  const LocalizeResult result = localize(models, test_images(), {.attribution = {.method = map}});
  const Evaluation classified = task_.classified == task_.test ? Evaluation{} : evaluate(models, classified_images());
  std::vector<AttributionFigures> figures;
  for (size_t m = 1; m < models.size(); ++m) {
    const Localization& found = result.models[m];
    const MultiLabelMetrics& scores = classified.multi_label.empty() ? found.classification : classified.multi_label[m];
    figures.push_back({.precision = scores.sample_precision,
                       .f1 = scores.f1,
                       .auc = found.predicted.auc.mean(),
                       .point = found.predicted.point.mean(),
                       .auc_all = found.present.auc.mean(),
                       .point_all = found.present.point.mean(),
                       .auc_teacher = found.shared.auc.mean(),
                       .point_teacher = found.shared.point.mean(),
                       .cosine = found.cosine.mean()});
  }
  return figures;
}

RoarOptions AttributionExperiment::roar_options() const {
  return {.levels = scale_.roar_levels, .seeds = scale_.roar_seeds, .training = training(scale_.roar_epochs, 0)};
}

RoarData AttributionExperiment::roar_data() {
  return {student_images(), test_images(), [this](uint64_t seed) { return network(0.5, 0, seed + 1000); }};
}

RoarPoint AttributionExperiment::retrained() { return roar_whole(roar_data(), roar_options(), trainer_); }

PixelRanking AttributionExperiment::ranking(const Graph& model) {
  return ranking_by(model, roar_data(), roar_options());
}

std::vector<PixelRanking> AttributionExperiment::random_rankings(const std::string& kind) {
  RoarOptions options = roar_options();
  options.random = kind;
  std::vector<PixelRanking> rankings;
  for (int64_t seed = 0; seed < scale_.roar_seeds; ++seed) {
    options.training = training(scale_.roar_epochs, seed);
    rankings.push_back(random_ranking(teacher(), roar_data(), options));
  }
  return rankings;
}

RoarCurve AttributionExperiment::retrained_without(const std::string& name, const std::vector<PixelRanking>& rankings,
                                                   const std::string& fill) {
  RoarOptions options = roar_options();
  options.fill = fill;
  return roar_curve(name, rankings, roar_data(), options, trainer_);
}

}  // namespace pare
