#include "pare/dist/heartbeat.h"

#include <gtest/gtest.h>

#include "pare/error.h"

namespace pare {
namespace {

using namespace std::chrono_literals;
constexpr HeartbeatOptions kFast{.every = 10ms, .patience = 600ms};

// Connections of several ranks to one store.
class Shared : public Store {
 public:
  explicit Shared(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  void set(const std::string& key, const std::string& value) override { store_->set(key, value); }
  std::optional<std::string> get(const std::string& key) override { return store_->get(key); }
  int64_t add(const std::string& key, int64_t value) override { return store_->add(key, value); }

 private:
  std::shared_ptr<Store> store_;
};

class Gone : public Store {
 public:
  void set(const std::string&, const std::string&) override { fail(); }
  std::optional<std::string> get(const std::string&) override { return fail(), std::nullopt; }
  int64_t add(const std::string&, int64_t) override { return fail(), 0; }

 private:
  static void fail() { throw Error(ErrorKind::failed, "store", "gone"); }
};

std::unique_ptr<Heartbeat> beat(const std::shared_ptr<Store>& store, int rank, int size) {
  return std::make_unique<Heartbeat>(std::make_unique<Shared>(store), "", rank, size, kFast);
}

TEST(Heartbeat, AllAreWell) {
  const auto store = std::make_shared<MemoryStore>();
  const auto first = beat(store, 0, 2), second = beat(store, 1, 2);
  std::this_thread::sleep_for(800ms);
  EXPECT_FALSE(first->trouble());
  EXPECT_FALSE(second->trouble());
}

TEST(Heartbeat, NamesARankThatNeverBeats) {
  const auto store = std::make_shared<MemoryStore>();
  const auto first = beat(store, 0, 3), second = beat(store, 1, 3);
  const auto verdict = first->verdict();
  ASSERT_TRUE(verdict);
  EXPECT_NE(verdict->find("rank 2 is lost"), std::string::npos) << *verdict;
}

TEST(Heartbeat, PassesOnWhyARankLeft) {
  const auto store = std::make_shared<MemoryStore>();
  const auto first = beat(store, 0, 2), second = beat(store, 1, 2);
  second->leave("rank 1 ended: the disk is full");
  const auto verdict = first->verdict();
  ASSERT_TRUE(verdict);
  EXPECT_EQ(*verdict, "rank 1 ended: the disk is full");
}

TEST(Heartbeat, ARankThatIsDoneIsNotLost) {
  const auto store = std::make_shared<MemoryStore>();
  const auto first = beat(store, 0, 2);
  beat(store, 1, 2).reset();
  std::this_thread::sleep_for(800ms);
  EXPECT_FALSE(first->trouble());
}

TEST(Heartbeat, WithoutItsStoreRankZeroIsLost) {
  Heartbeat own(std::make_unique<Gone>(), "", 1, 2, kFast);
  const auto verdict = own.verdict();
  ASSERT_TRUE(verdict);
  EXPECT_NE(verdict->find("rank 0 is lost"), std::string::npos) << *verdict;
}

}  // namespace
}  // namespace pare
