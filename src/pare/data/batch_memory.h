// Inside the loader: float32 memory for batches, given out again once nobody holds a tensor on it. Fresh memory of a
// megabyte or more costs as much in page faults as the normalisation itself. Any thread; tensors may outlive the owner.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

namespace pare {

class BatchMemory : public std::enable_shared_from_this<BatchMemory> {
 public:
  explicit BatchMemory(int64_t floats) : bytes_(static_cast<size_t>(floats) * sizeof(float)) {
    free_.reserve(most_free);
  }
  ~BatchMemory() {
    for (void* block : free_) ::operator delete(block, alignment);
  }
  BatchMemory(const BatchMemory&) = delete;
  BatchMemory& operator=(const BatchMemory&) = delete;

  // A tensor of at most `floats` elements, not initialised.
  at::Tensor take(at::IntArrayRef sizes) {
    return at::from_blob(
        block(), sizes, [self = shared_from_this()](void* block) { self->give_back(block); }, at::kFloat);
  }

 private:
  static constexpr size_t most_free = 16;
  static constexpr std::align_val_t alignment{64};

  void* block() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        void* last = free_.back();
        free_.pop_back();
        return last;
      }
    }
    return ::operator new(bytes_, alignment);
  }

  void give_back(void* block) {
    {
      const std::lock_guard lock(mutex_);
      if (free_.size() < most_free) {
        free_.push_back(block);
        return;
      }
    }
    ::operator delete(block, alignment);
  }

  const size_t bytes_;
  std::mutex mutex_;
  std::vector<void*> free_;
};

}  // namespace pare
