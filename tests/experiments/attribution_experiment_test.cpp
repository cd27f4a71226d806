#include "experiments/attribution_experiment.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "datasets/bytes.h"
#include "pare/data/data_options.h"
#include "pare/data/image.h"
#include "pare/data/places.h"
#include "pare/data/scenes.h"
#include "pare/error.h"
#include "pare/metrics/evaluate.h"

namespace pare {
namespace {

TEST(AttributionExperiment, MeansAndStandardErrors) {
  std::vector<AttributionFigures> seeds(3);
  for (size_t i = 0; i < 3; ++i) seeds[i] = {.f1 = 0.5, .auc = 0.7 + 0.1 * static_cast<double>(i)};
  const std::vector<SeedMean> result = means_of(seeds);
  ASSERT_EQ(result.size(), AttributionFigures::names().size());
  EXPECT_EQ(AttributionFigures::names()[2], "auc");
  EXPECT_NEAR(result[2].mean, 0.8, 1e-15);
  EXPECT_NEAR(result[2].error, 0.1 / std::sqrt(3), 1e-15);
  EXPECT_EQ(result[1].error, 0);
  EXPECT_EQ(means_of({seeds[0]})[2].mean, 0.7);
  EXPECT_TRUE(std::isnan(means_of({seeds[0]})[2].error));
}

TEST(AttributionExperiment, ScalesGrow) {
  EXPECT_LT(attribution_scale("toy").student_images, attribution_scale("small").student_images);
  EXPECT_EQ(attribution_scale("small").seeds, 3);
  EXPECT_EQ(attribution_scale("full").seeds, 5);
  for (const char* name : {"small", "full"}) {
    const AttributionScale scale = attribution_scale(name);
    EXPECT_GE(1 - std::pow(1 - scale.round_rate, scale.rounds), 0.95) << name;
  }
  EXPECT_THROW(attribution_scale("huge"), Error);
}

void write_noise(const std::string& split, const std::filesystem::path& directory) {
  const auto classes = known_dataset("fashion-mnist")->classes;
  Dataset data{
      .name = "scenes", .classes = {classes.begin(), classes.end()}, .mean = {0.45}, .std = {0.25}, .split = split};
  data.images = at::randint(256, {12, 3, 56, 56}, at::kByte);
  data.labels = at::randint(2, {12, 10}, at::kByte);
  data.masks = at::zeros({12, 56, 56}, at::kByte);
  write_scenes(data, directory);
}

// Means over classifiers are over students too.
TEST(AttributionExperiment, EveryClassifierIsRetrainedWithoutWhatItsOwnStudentNames) {
  at::manual_seed(5);
  const TemporaryDirectory directory("experiment");
  for (const char* split : {"train", "test"}) write_noise(split, directory.path);
  std::vector<std::pair<uint64_t, std::string>> trained;
  const Trainer trainer = [&](const Graph& graph, const Dataset&, const TrainingOptions& options,
                              const TrainingJob& job) {
    trained.emplace_back(options.train.seed, job.definition);
    TrainingOutcome outcome{.graph = graph};  // half of the classes, others with every seed
    outcome.graph.tensors.at(graph.nodes.back().inputs.at(2)) =
        at::linspace(-9, 9, 10) * (options.train.seed % 2 == 0 ? 1 : -1);
    return outcome;
  };
  AttributionScale scale = attribution_scale("toy");
  scale.teacher_images = scale.student_images = scale.test_images = 12;
  scale.roar_levels = {0.2, 0.6};
  const auto f1 = [&](int64_t seeds, uint64_t first) {
    trained.clear();
    scale.roar_seeds = seeds;
    AttributionExperiment experiment({.data = "scenes:" + directory.path.string()}, scale, directory.path.string(),
                                     first, trainer);
    return experiment.retrained_without("random", experiment.random_rankings("pixels"), "mean").means("f1");
  };
  const auto one = f1(1, 7), other = f1(1, 8), both = f1(2, 7);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_NE(one, other);
  for (size_t level = 0; level < 2; ++level) EXPECT_NEAR(both[level], (one[level] + other[level]) / 2, 1e-12);
  ASSERT_EQ(trained.size(), 1u + 4u) << "the teacher, and two classifiers a level";
  for (const size_t job : {1, 2, 3, 4})
    EXPECT_THAT(trained[job].second, testing::HasSubstr(job % 2 == 1 ? "seed 7" : "seed 8"));
}

// The released protocol: random crops of full pictures to train on, the classification split for mAP and F1, stretched
// pictures with masks for maps.
TEST(AttributionExperiment, OfVocFollowsTheReleasedProtocol) {
  const TemporaryDirectory directory("voc_protocol");
  const std::string kit = "VOC2012/";
  const auto add = [&](const std::string& id, const std::string& name) {
    directory.write(kit + "JPEGImages/" + id + ".jpg", encode_png(at::randint(256, {3, 60, 90}, at::kByte)));
    directory.write(kit + "Annotations/" + id + ".xml",
                    "<annotation><object><name>" + name + "</name></object></annotation>");
    at::Tensor mask = at::zeros({1, 60, 90}, at::kByte);
    mask.slice(1, 10, 40).fill_(8);
    directory.write(kit + "SegmentationClass/" + id + ".png", encode_png(mask));
  };
  for (const char* id : {"t1", "t2", "v1", "v2", "v3", "s1"}) add(id, "cat");
  directory.write(kit + "ImageSets/Main/train.txt", "t1\nt2\n");
  directory.write(kit + "ImageSets/Main/val.txt", "v1\nv2\nv3\n");
  directory.write(kit + "ImageSets/Segmentation/val.txt", "s1\n");
  AttributionTask task = voc_task("voc:" + directory.path.string());
  task.arch = "vgg9-bn";
  task.side = 32;
  std::vector<std::string> augmented;
  const Trainer trainer = [&](const Graph& graph, const Dataset& data, const TrainingOptions& options,
                              const TrainingJob&) {
    augmented.push_back(options.train.augment);
    EXPECT_EQ(data.size(), 2);
    EXPECT_EQ(data.files.size(), 2u) << "full pictures to crop from";
    EXPECT_EQ(data.preprocess, "stretch");
    return TrainingOutcome{.graph = graph};
  };
  AttributionScale scale = attribution_scale("toy");
  scale.teacher_images = scale.student_images = scale.test_images = 0;
  AttributionExperiment experiment(task, scale, directory.path.string(), 1, trainer);
  const Graph student = experiment.compressed("distillation", "none", 0);
  EXPECT_THAT(augmented, testing::Each("resized-crop,flip"));
  EXPECT_EQ(augmented.size(), 2u);
  const AttributionFigures figures = experiment.measure({student}, "gradcam").at(0);
  const DataChoice classified{.data = task.data, .split = "test", .size = 32, .preprocess = "stretch"};
  const Evaluation wanted = evaluate({student}, classified.load({}));
  EXPECT_EQ(figures.precision, wanted.multi_label[0].sample_precision);
  EXPECT_EQ(figures.f1, wanted.multi_label[0].f1);
  EXPECT_EQ(wanted.samples, 3) << "Main/val, not Segmentation/val";
}

}  // namespace
}  // namespace pare
