#pragma once

#include <ATen/Parallel.h>

#include <algorithm>

namespace pare {

// While it lives, the calling thread may change how many threads ATen gives it; afterwards, even after an error, it has
// the old number again.
struct ThreadsRestored {
  const int count = std::max(1, at::get_num_threads());
  ThreadsRestored() = default;
  ~ThreadsRestored() { at::set_num_threads(count); }
  ThreadsRestored(const ThreadsRestored&) = delete;
  ThreadsRestored& operator=(const ThreadsRestored&) = delete;
};

}  // namespace pare
