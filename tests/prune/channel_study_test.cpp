// What is learned of groups does not depend on how many are studied at once.
#include "pare/prune/channel_study.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/run.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

TEST(ChannelStudy, IsTheSameGroupByGroup) {
  const Graph graph = build("resnet20", {.width = 0.25}, 1);
  const ChannelMap map = analyze_channels(graph);
  const Samples samples = samples_of(random_inputs(graph, 20, 3));
  std::vector<ChannelStudy> studies;
  for (const int64_t memory : {int64_t{1} << 30, int64_t{0}}) {
    std::vector<Candidate> groups = candidates(graph, map, {});
    studies.push_back(study_channels(graph, map, groups, samples, {.memory = memory}, unobserved()));
  }
  ASSERT_GT(studies[0].eliminations.size(), 2U);
  ASSERT_EQ(studies[1].eliminations.size(), studies[0].eliminations.size());
  EXPECT_EQ(studies[1].fisher.size(), studies[0].fisher.size());
  for (size_t g = 0; g < studies[0].eliminations.size(); ++g) {
    EXPECT_EQ(studies[1].eliminations[g].group, studies[0].eliminations[g].group);
    EXPECT_EQ(studies[1].eliminations[g].order, studies[0].eliminations[g].order);
    const auto &whole = studies[0].sensitivity[g], &alone = studies[1].sensitivity[g];
    for (size_t i = 0; i < whole.divergence.size(); ++i)
      EXPECT_NEAR(alone.divergence[i], whole.divergence[i], 1e-6 * std::abs(whole.divergence[i]) + 1e-12);
  }
}

}  // namespace
}  // namespace pare
