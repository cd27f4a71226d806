// Which of the processes still live. Each raises its counter in the store every second; one whose counter stands still
// for too long, without having said that it leaves, is lost. Slow is not lost: the counter is raised by a thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "pare/dist/store.h"

namespace pare {

struct HeartbeatOptions {
  std::chrono::milliseconds every{1000};
  std::chrono::milliseconds patience{20000};  // a counter that stands still for so long is a lost process
};

class Heartbeat {
 public:
  // `store`: a connection of its own. `prefix` is the same in all processes of a group.
  Heartbeat(std::unique_ptr<Store> store, std::string prefix, int rank, int size, HeartbeatOptions options = {});
  ~Heartbeat();  // says that this process leaves, unless leave() did

  // Which process is lost, or left before it should have, and why; nothing: all are well. Never blocks.
  std::optional<std::string> trouble() const;
  // The same once something has failed: waits for a verdict, with less patience from now on.
  std::optional<std::string> verdict();
  void leave(const std::string& reason);  // empty: done

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    int64_t count = -1;
    Clock::time_point seen;
  };

  std::string key(const char* what, int rank) const;
  void run();
  void look_around();

  std::unique_ptr<Store> store_;
  const std::string prefix_;
  const int rank_;
  const HeartbeatOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::chrono::milliseconds patience_;
  std::vector<Peer> peers_;  // of the thread alone
  std::string trouble_;
  Clock::time_point answered_;  // when the store last did
  bool stop_ = false;
  std::string reason_;
  std::thread thread_;
};

}  // namespace pare
