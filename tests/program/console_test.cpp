#include "console.h"

#include <gtest/gtest.h>

namespace pare::cli {
namespace {

TEST(Progress, StaysWithinALine) {
  const std::string note = "epoch 12/30  loss 0.1234  12345 images/s";
  for (const size_t width : {20U, 40U, 79U, 80U, 120U, 200U}) {
    const std::string line = progress_line("training", 123, 45678, note, 1234, width);
    EXPECT_LT(line.size(), width) << line;
  }
  EXPECT_EQ(progress_line("training", 1, 2, "", 3, 80), "training [###############...............] 1/2  3 s left");
  EXPECT_EQ(progress_line("training", 123, 456, note, 9, 80),
            "training [##......] 123/456  epoch 12/30  loss 0.1234  12345 images/s  9 s left");
}

}  // namespace
}  // namespace pare::cli
