#include "pare/dist/work_queue.h"

#include <fmt/format.h>

#include "pare/error.h"

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

// The owners of an item are numbered. Whoever claims a number first is that owner, and then writes its name: one that
// is lost before it has is waited for like any other, under the number's own name.
bool WorkQueue::try_claim(size_t item) {
  const auto key = [&](const char* what, int64_t number) { return fmt::format("{}/{}", item_key(what, item), number); };
  int64_t last = 0;
  while (store_->add(key("claims/", last + 1), 0) > 0) ++last;
  if (last > 0) {
    const std::string owner = store_->get(key("owners/", last)).value_or(key("owners/", last));
    if (owner == worker_ || !is_lost(owner)) return false;
  }
  if (store_->add(key("claims/", last + 1), 1) != 1) return false;
  store_->set(key("owners/", last + 1), worker_);
  if (last > 0) ++taken_over_;
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
