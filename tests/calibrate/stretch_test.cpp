#include "pare/calibrate/stretch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace pare {
namespace {

TEST(Stretch, KeepsTheSamplesAndTheirScale) {
  at::manual_seed(1);
  const at::Tensor images = at::randn({30, 2, 9, 9});
  const auto found = stretch_samples({images}, {.count = 200});
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].sizes(), at::IntArrayRef({200, 2, 9, 9}));
  EXPECT_TRUE(at::equal(found[0].slice(0, 0, 30), images));
  const double deviation = found[0].slice(0, 30).std().item<double>();
  EXPECT_GT(deviation, 0.5);  // a mixture of two lies between its parts
  EXPECT_LT(deviation, 1.1);
  EXPECT_TRUE(at::equal(found[0], stretch_samples({images}, {.count = 200})[0]));
  EXPECT_FALSE(at::equal(found[0], stretch_samples({images}, {.count = 200, .seed = 1})[0]));
}

TEST(Stretch, LeavesAloneWhatItCannotMix) {
  const at::Tensor words = at::randint(0, 9, {5, 4});
  EXPECT_TRUE(at::equal(stretch_samples({words}, {.count = 50})[0], words));
  const at::Tensor many = at::randn({50, 4});
  EXPECT_TRUE(at::equal(stretch_samples({many}, {.count = 50})[0], many));
  EXPECT_EQ(stretch_samples({many}, {.count = 80})[0].size(0), 80);
  EXPECT_TRUE(stretch_samples({}, {}).empty());
}

}  // namespace
}  // namespace pare
