#include "pare/workflow/attribution_experiment.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "datasets/bytes.h"
#include "pare/core/error.h"
#include "pare/data/places.h"
#include "pare/data/scenes.h"

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

}  // namespace
}  // namespace pare
