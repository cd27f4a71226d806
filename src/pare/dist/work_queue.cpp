#include "pare/dist/work_queue.h"

#include "pare/core/error.h"

namespace pare {

namespace {

std::string item_key(const char* what, size_t item) { return what + std::to_string(item); }

}  // namespace

WorkQueue::WorkQueue(std::unique_ptr<Store> store, size_t items, HeartbeatOptions options)
    : store_(std::move(store)),
      items_(items),
      options_(options),
      worker_(std::to_string(store_->add("workers", 1))),
      thread_([this] { beat(); }) {}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
  try {
    store_->add("left", 1);
  } catch (const std::exception&) {  // nobody is there to know
  }
}

void WorkQueue::wait_for_others(int64_t expected) {
  const auto end = Clock::now() + options_.patience;
  const auto all_gone = [&] {
    const int64_t came = store_->add("workers", 0);
    return came >= expected && came - store_->add("left", 0) <= 1;
  };
  while (!all_gone() && Clock::now() < end) std::this_thread::sleep_for(options_.every / 10);
}

void WorkQueue::beat() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    try {
      store_->add("alive/" + worker_, 1);
    } catch (const std::exception&) {  // claim() and done() will say so
      return;
    }
    lock.lock();
    wake_.wait_for(lock, options_.every, [this] { return stop_; });
  }
}

bool WorkQueue::is_lost(const std::string& worker) {
  Sign& sign = signs_[worker];
  const int64_t count = store_->add("alive/" + worker, 0);
  if (count != sign.count) sign = {.count = count, .seen = Clock::now()};
  return Clock::now() - sign.seen > options_.patience;
}

// Each owner of an item has a number; the one who counts up to the next becomes it.
bool WorkQueue::try_claim(size_t item) {
  const std::string owners = item_key("owners/", item) + "/";
  const int64_t now = store_->add(owners + "count", 0);
  if (now > 0) {
    const auto owner = store_->get(owners + std::to_string(now));
    if (!owner || *owner == worker_ || !is_lost(*owner)) return false;
  }
  if (store_->add(item_key("claims/", item) + "/" + std::to_string(now + 1), 1) != 1) return false;
  store_->set(owners + std::to_string(now + 1), worker_);
  store_->add(owners + "count", 1);
  if (now > 0) ++taken_over_;
  return true;
}

std::optional<size_t> WorkQueue::claim() {
  while (true) {
    size_t left = 0;
    for (size_t item = 0; item < items_; ++item) {
      if (store_->get(item_key("done/", item))) continue;
      ++left;
      if (try_claim(item)) return item;
    }
    if (left == 0) return std::nullopt;
    std::this_thread::sleep_for(options_.every);
  }
}

void WorkQueue::done(size_t item) { store_->set(item_key("done/", item), worker_); }

}  // namespace pare
