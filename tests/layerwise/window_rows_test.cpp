#include "pare/layerwise/window_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/error.h"

namespace pare {
namespace {

const std::vector<WindowAxis> kWindow = {{.input = 9, .kernel = 3, .stride = 2, .output = 4},
                                         {.input = 8, .kernel = 2, .dilation = 3, .output = 5}};

// Entry by entry, from what a window is.
TEST(WindowRows, AreWhatTheWindowSees) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({3, 6, 9, 8}), places = at::randint(20, {3, 7}, at::kLong);
  for (const int64_t groups : {1, 2, 6}) {
    const at::Tensor rows = window_rows(x, kWindow, places, groups);
    const int64_t own = 6 / groups;
    ASSERT_EQ(rows.sizes(), (std::vector<int64_t>{groups, 21, own * 6}));
    for (int64_t image = 0; image < 3; ++image)
      for (int64_t p = 0; p < 7; ++p)
        for (int64_t c = 0; c < 6; ++c)
          for (int64_t k = 0; k < 6; ++k) {
            const int64_t place = places[image][p].item<int64_t>();
            const at::Tensor seen = x[image][c][place / 5 * 2 + k / 2][place % 5 + k % 2 * 3];
            const at::Tensor row = rows[c / own][image * 7 + p];
            ASSERT_EQ(row[c % own * 6 + k].item<float>(), seen.item<float>());
          }
  }
}

TEST(WindowRows, AreTheSameWhereverTheEntriesLie) {
  at::manual_seed(2);
  const at::Tensor x = at::randn({2, 150, 9, 8}), places = at::arange(20).expand({2, 20});
  const at::Tensor last = x.contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor part = at::cat({x, x}, 1).narrow(1, 150, 150);
  const at::Tensor expected = window_rows(x, kWindow, places, 1);
  EXPECT_TRUE(at::equal(window_rows(last, kWindow, places, 1), expected));
  EXPECT_TRUE(at::equal(window_rows(part, kWindow, places, 1), expected));
  const std::vector<WindowAxis> point = {{.input = 9, .stride = 2, .output = 5}, {.input = 8, .output = 8}};
  const at::Tensor all = at::arange(40).expand({2, 40});
  EXPECT_TRUE(at::equal(window_rows(last, point, all, 1), window_rows(x, point, all, 1)));
  EXPECT_TRUE(at::equal(window_rows(x.to(at::kDouble), kWindow, places, 1).to(at::kFloat), expected));
}

TEST(WindowRows, AWindowThatRunsOverTheEdgeIsRefused) {
  const at::Tensor x = at::randn({1, 1, 8, 8});
  EXPECT_THROW(window_rows(x, kWindow, at::zeros({1, 1}, at::kLong), 1), Error);
}

}  // namespace
}  // namespace pare
