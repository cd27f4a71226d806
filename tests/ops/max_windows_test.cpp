// The maxima of windows and their gradients against ATen's pooling.
#include "pare/ops/max_windows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

namespace pare {
namespace {

at::Tensor images(at::IntArrayRef dims) {
  at::manual_seed(4);
  return at::randn(dims).contiguous(at::MemoryFormat::ChannelsLast);
}

struct Case {
  std::vector<int64_t> dims;
  Tiling tiling;
};

const Case kCases[] = {{{3, 8, 6, 4}, {2, 2}},
                       {{2, 20, 24, 24}, {2, 2}},  // channels not a multiple of eight
                       {{2, 9, 7, 11}, {2, 3}},    // rows and columns that no window has
                       {{1, 33, 5, 5}, {5, 5}},
                       {{65, 16, 8, 8}, {4, 1}}};

TEST(MaxOfWindows, IsMaxPooling) {
  for (const auto& c : kCases) {
    const at::Tensor x = images(c.dims).mul(2).round();  // ties
    ASSERT_TRUE(suits_max_of_windows(x, c.tiling));
    EXPECT_TRUE(at::equal(max_of_windows(x, c.tiling), at::max_pool2d(x, {c.tiling.height, c.tiling.width})));
  }
}

TEST(MaxOfWindows, HasItsGradient) {
  for (const auto& c : kCases) {
    const at::Tensor x = images(c.dims).requires_grad_();
    const at::Tensor mine = max_of_windows(x, c.tiling);
    const at::Tensor theirs = at::max_pool2d(x, {c.tiling.height, c.tiling.width});
    const at::Tensor weight = at::randn_like(mine);
    EXPECT_TRUE(
        at::equal(torch::autograd::grad({mine}, {x}, {weight})[0], torch::autograd::grad({theirs}, {x}, {weight})[0]));
  }
}

TEST(MaxOfWindows, HasItsSecondDerivative) {
  for (const auto& c : kCases) {
    const at::Tensor x = images(c.dims).requires_grad_();
    const at::Tensor weight =
        at::randn({c.dims[0], c.dims[1], c.dims[2] / c.tiling.height, c.dims[3] / c.tiling.width});
    const auto second = [&](const at::Tensor& pooled) {
      const at::Tensor first = torch::autograd::grad({pooled.pow(3)}, {x}, {weight}, true, true)[0];
      return torch::autograd::grad({first.square().sum()}, {x})[0];
    };
    const at::Tensor mine = second(max_of_windows(x, c.tiling));
    const at::Tensor theirs = second(at::max_pool2d(x, {c.tiling.height, c.tiling.width}));
    EXPECT_TRUE(at::allclose(mine, theirs, 1e-5, 1e-6));
    EXPECT_GT(mine.abs().max().item<double>(), 0);
  }
}

TEST(MaxOfWindows, NotANumberWins) {
  at::Tensor x = images({1, 8, 2, 2});
  x[0][3][0][1] = std::nanf("");
  const at::Tensor most = max_of_windows(x, {2, 2});
  EXPECT_TRUE(std::isnan(most[0][3][0][0].item<double>()));
  EXPECT_EQ(at::isnan(most).sum().item<int64_t>(), 1);
}

TEST(MaxOfWindows, SuitsOnlyWhatItCanTake) {
  EXPECT_FALSE(suits_max_of_windows(at::randn({2, 16, 4, 4}), {2, 2}));  // rows of one channel
  EXPECT_FALSE(suits_max_of_windows(images({2, 7, 4, 4}), {2, 2}));
  EXPECT_FALSE(suits_max_of_windows(images({2, 16, 4, 4}).to(at::kDouble), {2, 2}));
  EXPECT_FALSE(suits_max_of_windows(images({2, 16, 1, 4}), {2, 2}));
}

}  // namespace
}  // namespace pare
