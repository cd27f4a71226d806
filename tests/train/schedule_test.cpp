#include "pare/train/schedule.h"

#include <gtest/gtest.h>

#include "pare/error.h"

namespace pare {
namespace {

TEST(Schedule, OneCycleIsThatOfPyTorch) {
  // torch.optim.lr_scheduler.OneCycleLR(max_lr=0.4, total_steps=20), its 20 rates.
  const std::vector<double> expected = {0.016000000000000014,
                                        0.05266873708001013,
                                        0.1486687370800101,
                                        0.2673312629199899,
                                        0.3633312629199899,
                                        0.4,
                                        0.39498560249403497,
                                        0.38019385280538953,
                                        0.35636647102842,
                                        0.3246982615799052,
                                        0.28677720071652035,
                                        0.24450480877451572,
                                        0.2000008,
                                        0.1554967912254843,
                                        0.11322439928347969,
                                        0.0753033384200948,
                                        0.04363512897158001,
                                        0.019807747194610516,
                                        0.005015997505965022,
                                        1.6e-06};
  for (int64_t step = 0; step < 20; ++step)
    EXPECT_NEAR(learning_rate({.schedule = ScheduleKind::one_cycle}, 0.4, step, {20, 5}),
                expected[static_cast<size_t>(step)], 1e-12)
        << step;
}

TEST(Schedule, StepsFallAtTheMilestones) {
  const ScheduleOptions options{.schedule = ScheduleKind::step, .milestones = {1, 2.5}, .factor = 0.1};
  const RunLength run{40, 10};
  EXPECT_DOUBLE_EQ(learning_rate(options, 1, 9, run), 1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 1, 10, run), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 1, 24, run), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 1, 25, run), 0.1 * 0.1);
}

TEST(Schedule, CosineEndsAtNothingAndWarmupRisesLinearly) {
  const ScheduleOptions options{.schedule = ScheduleKind::cosine, .warmup = 1};
  const RunLength run{110, 10};
  EXPECT_NEAR(learning_rate(options, 2, 0, run), 2 * 1 / 11.0, 1e-12);
  EXPECT_NEAR(learning_rate(options, 2, 9, run), 2 * 10 / 11.0, 1e-12);
  EXPECT_NEAR(learning_rate(options, 2, 10, run), 2, 1e-12);
  EXPECT_NEAR(learning_rate(options, 2, 60, run), 1, 1e-12);
  EXPECT_NEAR(learning_rate(options, 2, 110, run), 0, 1e-12);
  EXPECT_DOUBLE_EQ(learning_rate({.schedule = ScheduleKind::constant}, 2, 70, run), 2);
}

TEST(Schedule, RefusesNonsense) {
  EXPECT_THROW((ScheduleOptions{.warmup = -1}.check()), Error);
  EXPECT_THROW((ScheduleOptions{.milestones = {3, 2}}.check()), Error);
  EXPECT_THROW((ScheduleOptions{.factor = 0}.check()), Error);
  EXPECT_THROW((ScheduleOptions{.peak = 1}.check()), Error);
}

}  // namespace
}  // namespace pare
