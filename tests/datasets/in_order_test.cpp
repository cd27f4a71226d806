#include "pare/data/in_order.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace pare {
namespace {

TEST(InOrder, CollectsInTheOrderOfThePieces) {
  const ThreadsRestored restored;
  at::set_num_threads(3);
  std::vector<size_t> collected;
  in_order<size_t>(
      20,
      [](size_t i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(i % 3 == 0 ? 3 : 0));  // the later ones come first
        return i;
      },
      [&](size_t i) { collected.push_back(i); });
  ASSERT_EQ(collected.size(), 20u);
  for (size_t i = 0; i < collected.size(); ++i) EXPECT_EQ(collected[i], i);
  EXPECT_EQ(at::get_num_threads(), 3);
}

TEST(InOrder, GivesThreadsBackAfterAnError) {
  const ThreadsRestored restored;
  at::set_num_threads(3);
  const auto fail = [](size_t) -> int { throw std::runtime_error("as planned"); };
  EXPECT_THROW(in_order<int>(4, fail, [](int) {}), std::runtime_error);
  EXPECT_EQ(at::get_num_threads(), 3);
}

}  // namespace
}  // namespace pare
