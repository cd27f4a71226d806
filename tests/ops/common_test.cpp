// Pieces that operators share.
#include "pare/ops/common.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace pare {
namespace {

TEST(ChannelsLast, HoldsForOneChannelToo) {
  for (const int64_t channels : {1, 3}) {
    const at::Tensor images = at::randn({2, channels, 5, 4});
    const at::Tensor ordered = channels_last(images);
    EXPECT_TRUE(at::equal(images, ordered));
    EXPECT_EQ(ordered.suggest_memory_format(), at::MemoryFormat::ChannelsLast);
    const at::Tensor made = at::conv2d(ordered, at::randn({8, channels, 3, 3}));
    EXPECT_EQ(made.suggest_memory_format(), at::MemoryFormat::ChannelsLast) << channels << " channels";
  }
}

}  // namespace
}  // namespace pare
