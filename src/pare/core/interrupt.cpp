#include "pare/core/interrupt.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>

namespace pare {

namespace {

std::atomic<int> watches = 0;
std::atomic<int> signals = 0;
std::array<std::atomic<const char*>, 16> doomed = {};  // more files at once stay behind

static_assert(std::atomic<int>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

extern "C" void on_interrupt(int signal) {
  if (watches > 0 && signals++ == 0) return;
  for (auto& slot : doomed)
    if (const char* path = slot.exchange(nullptr)) ::unlink(path);
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

void handle_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction old {};
    ::sigaction(signal, nullptr, &old);
    if (old.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);  // nohup, `pare &` in a script
  }
}

InterruptWatch::InterruptWatch() { ++watches; }

InterruptWatch::~InterruptWatch() {
  if (--watches == 0) signals = 0;
}

bool InterruptWatch::interrupted() const { return signals > 0; }

void remove_when_killed(const char* path) {
  for (auto& slot : doomed) {
    const char* empty = nullptr;
    if (slot.compare_exchange_strong(empty, path)) return;
  }
}

void forget_when_killed(const char* path) {
  for (auto& slot : doomed) {
    const char* wanted = path;
    if (slot.compare_exchange_strong(wanted, nullptr)) return;
  }
}

}  // namespace pare
