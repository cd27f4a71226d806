// Ranks as threads of this process, each with a group of its own.
#pragma once

#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "pare/dist/process_group.h"
#include "pare/dist/store.h"

namespace pare {

// Runs `work` on every rank and rethrows what the first that failed threw.
inline void on_ranks(int size, const std::function<void(ProcessGroup&)>& work) {
  const uint16_t port = serve_store({.address = "127.0.0.1", .port = 0}).port;  // free again when this returns
  std::vector<std::exception_ptr> failures(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        const auto ranks = join({.rank = rank, .size = size, .address = "127.0.0.1", .port = port});
        work(*ranks);
      } catch (...) {
        failures[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  for (const auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace pare
