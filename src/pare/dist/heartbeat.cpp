#include "pare/dist/heartbeat.h"

#include "pare/error.h"

namespace pare {

Heartbeat::Heartbeat(std::unique_ptr<Store> store, std::string prefix, int rank, int size, HeartbeatOptions options)
    : store_(std::move(store)),
      prefix_(std::move(prefix)),
      rank_(rank),
      options_(options),
      patience_(options.patience),
      peers_(static_cast<size_t>(size), Peer{.seen = Clock::now()}),
      answered_(Clock::now()),
      thread_([this] { run(); }) {}

Heartbeat::~Heartbeat() {
  leave("");
  std::unique_lock lock(mutex_);
  const bool hangs = Clock::now() - answered_ > patience_;  // in a store that does not answer any more
  lock.unlock();
  if (hangs)
    thread_.detach();
  else
    thread_.join();
}

std::string Heartbeat::key(const char* what, int rank) const { return prefix_ + what + std::to_string(rank); }

void Heartbeat::leave(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    stop_ = true;
    reason_ = reason;
  }
  wake_.notify_all();
}

void Heartbeat::run() {
  try {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      lock.unlock();
      look_around();
      lock.lock();
      wake_.wait_for(lock, options_.every, [this] { return stop_; });
    }
    const std::string reason = reason_;
    lock.unlock();
    store_->set(key("left/", rank_), reason);
  } catch (const std::exception&) {
    const std::lock_guard lock(mutex_);
    if (trouble_.empty()) trouble_ = "rank 0 is lost: its store is gone";
  }
}

void Heartbeat::look_around() {
  store_->add(key("beat/", rank_), 1);
  std::unique_lock lock(mutex_);
  const auto patience = patience_;
  lock.unlock();
  std::string found;
  for (int rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    if (rank == rank_) continue;
    Peer& peer = peers_[static_cast<size_t>(rank)];
    const int64_t count = store_->add(key("beat/", rank), 0);
    const auto now = Clock::now();
    if (count != peer.count) peer = {.count = count, .seen = now};
    if (const auto reason = store_->get(key("left/", rank))) {
      // One that left because of another is not the one to name.
      if (!reason->empty() && found.empty()) found = *reason;
    } else if (now - peer.seen > patience) {
      found = fmt::format("rank {} is lost: it gave no sign of life for {} s", rank,
                          std::chrono::duration_cast<std::chrono::seconds>(now - peer.seen).count());
    }
  }
  lock.lock();
  answered_ = Clock::now();
  if (trouble_.empty()) trouble_ = found;
}

std::optional<std::string> Heartbeat::trouble() const {
  const std::lock_guard lock(mutex_);
  if (!trouble_.empty()) return trouble_;
  if (Clock::now() - answered_ > patience_) return "rank 0 is lost: its store does not answer";
  return std::nullopt;
}

std::optional<std::string> Heartbeat::verdict() {
  const auto end = Clock::now() + options_.patience;
  {
    const std::lock_guard lock(mutex_);
    patience_ = std::min<std::chrono::milliseconds>(options_.patience, 6 * options_.every);
  }
  while (Clock::now() < end) {
    if (auto found = trouble()) return found;
    std::this_thread::sleep_for(options_.every / 10);
  }
  return std::nullopt;
}

}  // namespace pare
