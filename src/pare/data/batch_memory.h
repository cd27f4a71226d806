// Inside of the loader: float32 memory for batches. Any thread.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace pare {

// A block that only the pool still holds is given out again: fresh memory of a megabyte or
// more costs as much in page faults as the normalisation itself.
class BatchMemory {
 public:
  at::Tensor take(at::IntArrayRef sizes, int64_t capacity) {
    const std::lock_guard lock(mutex_);
    const auto bytes = static_cast<size_t>(capacity) * sizeof(float);
    for (auto& block : blocks_)
      if (block.use_count() == 1 && block.nbytes() == bytes) return on(block, sizes);
    const auto fresh = at::empty({capacity}, at::kFloat).storage();
    if (blocks_.size() < most_blocks) blocks_.push_back(fresh);
    return on(fresh, sizes);
  }

 private:
  static at::Tensor on(const c10::Storage& block, at::IntArrayRef sizes) {
    return at::empty({0}, at::kFloat).set_(block, 0, sizes);
  }

  static constexpr size_t most_blocks = 16;
  std::mutex mutex_;
  std::vector<c10::Storage> blocks_;
};

}  // namespace pare
