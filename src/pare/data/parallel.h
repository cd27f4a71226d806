// Plain threads over an index range, for work that is not ATen's.
#pragma once

#include <cstddef>
#include <functional>

namespace pare {

// Calls work(0) … work(count - 1), each once, from up to `threads` threads (0: one per core) and waits for them. After
// an exception no further index is begun; the one of the lowest index seen is rethrown.
void parallel_each(size_t count, int threads, const std::function<void(size_t)>& work);

}  // namespace pare
