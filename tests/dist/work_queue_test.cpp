#include "pare/dist/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>

namespace pare {
namespace {

using namespace std::chrono_literals;
constexpr HeartbeatOptions kQuick{.every = 5ms, .patience = 300ms};

class Line : public Store {
 public:
  explicit Line(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  void set(const std::string& key, const std::string& value) override { store_->set(key, value); }
  std::optional<std::string> get(const std::string& key) override { return store_->get(key); }
  int64_t add(const std::string& key, int64_t value) override { return store_->add(key, value); }

 private:
  std::shared_ptr<Store> store_;
};

TEST(WorkQueue, EveryItemOnce) {
  const auto store = std::make_shared<MemoryStore>();
  std::vector<std::atomic<int>> worked(50);
  std::vector<std::thread> workers;
  for (int w = 0; w < 4; ++w)
    workers.emplace_back([&] {
      WorkQueue queue(std::make_unique<Line>(store), worked.size(), kQuick);
      while (const auto item = queue.claim()) {
        ++worked[*item];
        queue.done(*item);
      }
      EXPECT_EQ(queue.taken_over(), 0);
    });
  for (auto& worker : workers) worker.join();
  for (const auto& count : worked) EXPECT_EQ(count, 1);
}

TEST(WorkQueue, WhatALostWorkerHadIsTaken) {
  const auto store = std::make_shared<MemoryStore>();
  std::set<size_t> lost;
  {
    WorkQueue first(std::make_unique<Line>(store), 3, kQuick);
    lost.insert(*first.claim());
    lost.insert(*first.claim());
  }
  WorkQueue second(std::make_unique<Line>(store), 3, kQuick);
  std::set<size_t> all;
  while (const auto item = second.claim()) {
    all.insert(*item);
    second.done(*item);
  }
  EXPECT_EQ(all.size(), 3);
  EXPECT_EQ(second.taken_over(), lost.size());
}

// The line of a worker that is killed just before the given writing.
class CutLine : public Line {
 public:
  CutLine(std::shared_ptr<Store> store, int writings) : Line(std::move(store)), left_(writings) {}
  void set(const std::string& key, const std::string& value) override {
    if (key.starts_with("owners/")) spend();
    Line::set(key, value);
  }
  int64_t add(const std::string& key, int64_t value) override {
    if (value != 0 && (key.starts_with("owners/") || key.starts_with("claims/"))) spend();
    return Line::add(key, value);
  }

 private:
  void spend() {
    if (left_-- == 0) throw std::runtime_error("killed");
  }
  int left_;
};

TEST(WorkQueue, AWorkerKilledAtAnyPointOfItsClaimLeavesTheItem) {
  for (int writings = 0; writings < 4; ++writings) {
    const auto store = std::make_shared<MemoryStore>();
    {
      WorkQueue killed(std::make_unique<CutLine>(store, writings), 1, kQuick);
      try {
        EXPECT_TRUE(killed.claim());
      } catch (const std::runtime_error&) {
      }
    }
    std::optional<size_t> taken;
    std::thread other([&] {
      WorkQueue queue(std::make_unique<Line>(store), 1, kQuick);
      taken = queue.claim();
      if (taken) queue.done(*taken);
    });
    std::this_thread::sleep_for(1s);  // more than twice the patience
    store->set("done/0", "given up");
    other.join();
    EXPECT_TRUE(taken) << "killed after " << writings << " writings";
  }
}

TEST(WorkQueue, TheHolderOfTheStoreWaitsForOneThatComesLate) {
  const auto store = std::make_shared<MemoryStore>();
  WorkQueue holder(std::make_unique<Line>(store), 1, {.every = 5ms, .patience = 10s});
  holder.done(*holder.claim());
  std::atomic<bool> came = false;
  std::thread late([&] {
    std::this_thread::sleep_for(100ms);
    WorkQueue queue(std::make_unique<Line>(store), 1, kQuick);
    came = !queue.claim().has_value();
  });
  holder.wait_for_others(2);
  EXPECT_TRUE(came);
  late.join();
}

TEST(WorkQueue, ASlowWorkerKeepsItsItem) {
  const auto store = std::make_shared<MemoryStore>();
  WorkQueue slow(std::make_unique<Line>(store), 1, kQuick);
  ASSERT_TRUE(slow.claim());
  std::thread other([&] {
    WorkQueue queue(std::make_unique<Line>(store), 1, kQuick);
    EXPECT_FALSE(queue.claim());
  });
  std::this_thread::sleep_for(700ms);
  slow.done(0);
  other.join();
}

}  // namespace
}  // namespace pare
