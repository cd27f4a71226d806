// Work on pieces by several threads, collected in the order of the pieces, so that sums do not depend on who was
// faster.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>

#include "pare/data/parallel.h"

namespace pare {

// Calls collect(work(0)), collect(work(1)), … in this order; `work` runs in as many threads as ATen has, each of which
// then counts as one for ATen; a single piece has all of them.
template <typename Result>
void in_order(size_t count, const std::function<Result(size_t)>& work, const std::function<void(Result)>& collect) {
  if (count == 1) return collect(work(0));
  std::map<size_t, Result> waiting;
  size_t next = 0;
  std::mutex mutex;
  const int threads = std::max(1, at::get_num_threads());
  parallel_each(count, threads, [&](size_t i) {
    at::set_num_threads(1);
    Result result = work(i);
    const std::lock_guard lock(mutex);
    waiting.emplace(i, std::move(result));
    for (auto found = waiting.find(next); found != waiting.end(); found = waiting.find(++next)) {
      collect(std::move(found->second));
      waiting.erase(found);
    }
  });
  at::set_num_threads(threads);
}

}  // namespace pare
