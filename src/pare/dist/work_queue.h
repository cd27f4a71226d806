// Items of work that workers take from a store, one at a time. An item whose worker gives no sign of life is taken by
// another; workers may come at any time. What an item is, and where its result goes, is the workers' own affair.
//
//   WorkQueue queue(connect_store(place), 9);
//   while (const auto item = queue.claim()) { work_on(*item); queue.done(*item); }
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "pare/dist/heartbeat.h"
#include "pare/dist/store.h"

namespace pare {

class WorkQueue {
 public:
  // `options.patience`: a worker that was silent for so long is lost.
  WorkQueue(std::unique_ptr<Store> store, size_t items,
            HeartbeatOptions options = {.patience = std::chrono::seconds(15)});
  ~WorkQueue();

  // An item that nobody works on; waits while others work on all that are left, since those workers may be lost.
  // Nothing: all are done. Error{failed} when the store is gone.
  std::optional<size_t> claim();
  void done(size_t item);
  // For the one that holds the store: until `expected` workers have come, itself among them, and the others have left,
  // or for as long as the patience. A worker that comes when all is done would find no store.
  void wait_for_others(int64_t expected);
  size_t taken_over() const { return taken_over_; }  // items that were another's

 private:
  using Clock = std::chrono::steady_clock;
  struct Sign {
    int64_t count = -1;
    Clock::time_point seen;
  };

  bool is_lost(const std::string& worker);
  bool try_claim(size_t item);
  void beat();

  std::unique_ptr<Store> store_;
  const size_t items_;
  const HeartbeatOptions options_;
  std::string worker_;
  std::map<std::string, Sign> signs_;  // of other workers
  size_t taken_over_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace pare
