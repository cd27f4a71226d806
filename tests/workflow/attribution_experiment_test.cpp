#include "pare/workflow/attribution_experiment.h"

#include <gtest/gtest.h>

#include <cmath>

#include "pare/core/error.h"

namespace pare {
namespace {

TEST(AttributionExperiment, MeansAndStandardErrors) {
  std::vector<AttributionFigures> seeds(3);
  for (size_t i = 0; i < 3; ++i) seeds[i] = {.f1 = 0.5, .auc = 0.7 + 0.1 * static_cast<double>(i)};
  const AttributionMeans result = means_of(seeds);
  ASSERT_EQ(result.means.size(), AttributionFigures::names().size());
  EXPECT_EQ(AttributionFigures::names()[2], "auc");
  EXPECT_NEAR(result.means[2], 0.8, 1e-15);
  EXPECT_NEAR(result.errors[2], 0.1 / std::sqrt(3), 1e-15);
  EXPECT_EQ(result.errors[1], 0);
  EXPECT_EQ(means_of({seeds[0]}).errors[2], 0);
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

}  // namespace
}  // namespace pare
