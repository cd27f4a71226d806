#pragma once

#include <ATen/Parallel.h>

#include <algorithm>

namespace pare {

// Gives the calling thread its threads back, also after an error.
struct ThreadsRestored {
  const int count = std::max(1, at::get_num_threads());
  ~ThreadsRestored() { at::set_num_threads(count); }
};

}  // namespace pare
