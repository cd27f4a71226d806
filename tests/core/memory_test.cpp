// The limit on the memory of tensors.
#include "pare/core/memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

namespace pare {
namespace {

struct MemoryLimit : testing::Test {
  ~MemoryLimit() override { set_memory_limit(0); }
};

TEST_F(MemoryLimit, RefusesWhatIsTooLarge) {
  set_memory_limit(10 << 20);
  EXPECT_NO_THROW(at::zeros({1 << 20}, at::kFloat));
  try {
    at::zeros({4 << 20}, at::kFloat);
    FAIL() << "16 MB were given where 10 are allowed";
  } catch (const OutOfMemory& refused) {
    EXPECT_EQ(refused.asked, 16u << 20);
    EXPECT_NE(to_string(refused).find("needs 16.8 MB"), std::string::npos) << to_string(refused);
  }
  set_memory_limit(0);
  EXPECT_NO_THROW(at::zeros({4 << 20}, at::kFloat));
}

TEST_F(MemoryLimit, CountsWhatIsHeldTogether) {
  set_memory_limit(10 << 20);
  std::vector<at::Tensor> held;
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i) held.push_back(at::zeros({1 << 18}, at::kFloat));
      },
      OutOfMemory);
  EXPECT_GE(held.size(), 8u);
  EXPECT_LE(held.size(), 10u);
  held.clear();
  for (int i = 0; i < 100; ++i) at::zeros({1 << 18}, at::kFloat);  // one after the other they fit
}

TEST(MemoryScope, LimitsThisThreadAlone) {
  const at::Tensor before = at::zeros({4 << 20}, at::kFloat);
  const MemoryScope scope(1 << 20);
  EXPECT_NO_THROW(at::zeros({1 << 17}, at::kFloat));
  EXPECT_THROW(at::zeros({1 << 20}, at::kFloat), OutOfMemory);
  {
    const MemoryScope inner(100 << 20);  // no wider than the outer one
    EXPECT_THROW(at::zeros({1 << 20}, at::kFloat), OutOfMemory);
  }
  std::thread([] { EXPECT_NO_THROW(at::zeros({1 << 20}, at::kFloat)); }).join();
}

TEST(DefaultMemoryLimit, IsPartOfTheMachine) {
  EXPECT_GT(default_memory_limit(), 1u << 28);
  EXPECT_LT(default_memory_limit(), uint64_t{1} << 50);
}

}  // namespace
}  // namespace pare
