// Work on pieces by several threads, collected in the order of the pieces, so that sums do not depend on which thread
// was faster.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "pare/data/parallel.h"
#include "pare/data/threads_restored.h"

namespace pare {

// Calls collect(work(0)), collect(work(1)), … in this order; `work` runs in as many threads as ATen has, each of which
// then counts as one for ATen; a single piece has all of them. Exceptions are rethrown as parallel_each() does.
template <typename Result>
void in_order(size_t count, const std::function<Result(size_t)>& work, const std::function<void(Result)>& collect) {
  if (count == 1) return collect(work(0));
  std::map<size_t, Result> waiting;
  size_t next = 0;
  std::mutex mutex;
  const ThreadsRestored threads;
  parallel_each(count, threads.count, [&](size_t i) {
    at::set_num_threads(1);
    Result result = work(i);
    const std::lock_guard lock(mutex);
    waiting.emplace(i, std::move(result));
    for (auto found = waiting.find(next); found != waiting.end(); found = waiting.find(++next)) {
      collect(std::move(found->second));
      waiting.erase(found);
    }
  });
}

}  // namespace pare
