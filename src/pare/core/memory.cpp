#include "pare/core/memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <limits>

namespace pare {

namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

std::atomic<int64_t> held{0};  // bytes, by all threads
std::atomic<int64_t> most{kNoLimit};
thread_local int64_t made = 0;  // bytes that this thread allocated, less those that it freed
thread_local int64_t most_made = kNoLimit;

void count(int64_t bytes) {
  held += bytes;
  made += bytes;
}

int64_t usable_size(void* data) { return static_cast<int64_t>(::malloc_usable_size(data)); }

void free_counted(void* data) {
  if (data == nullptr) return;
  count(-usable_size(data));
  c10::free_cpu(data);
}

void refuse_beyond(int64_t asked, int64_t now, int64_t limit) {
  if (asked > limit - now)
    throw OutOfMemory(static_cast<uint64_t>(asked), static_cast<uint64_t>(std::max<int64_t>(now, 0)),
                      static_cast<uint64_t>(std::max<int64_t>(limit, 0)));
}

class CountingAllocator : public at::Allocator {
 public:
  at::DataPtr allocate(size_t bytes) const override {
    const auto asked = static_cast<int64_t>(std::min<size_t>(bytes, kNoLimit));
    refuse_beyond(asked, held.load(), most.load());
    if (most_made != kNoLimit) refuse_beyond(asked, made, most_made);
    void* data = c10::alloc_cpu(bytes);
    if (data != nullptr) count(usable_size(data));
    return {data, data, &free_counted, at::Device(at::kCPU)};
  }
  at::DeleterFnPtr raw_deleter() const override { return &free_counted; }
};

void install() {
  static CountingAllocator allocator;
  static const bool installed = (c10::SetCPUAllocator(&allocator, /*priority=*/1), true);
  static_cast<void>(installed);
}

// The memory that control groups (version 2 or 1) leave to the process; nothing is a very large number.
uint64_t container_memory() {
  uint64_t smallest = std::numeric_limits<uint64_t>::max();
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream in(file);
    uint64_t bytes = 0;
    if (in >> bytes && bytes > 0) smallest = std::min(smallest, bytes);
  }
  return smallest;
}

}  // namespace

std::string bytes_text(uint64_t bytes) {
  if (bytes < 1'000'000) return fmt::format("{} bytes", bytes);
  if (bytes < 1'000'000'000) return fmt::format("{:.1f} MB", static_cast<double>(bytes) * 1e-6);
  return fmt::format("{:.1f} GB", static_cast<double>(bytes) * 1e-9);
}

std::string to_string(const OutOfMemory& refused) {
  return fmt::format("needs {} beside the {} in use; the limit is {}", bytes_text(refused.asked),
                     bytes_text(refused.held), bytes_text(refused.most));
}

void set_memory_limit(uint64_t bytes) {
  install();
  most = bytes == 0 ? kNoLimit : static_cast<int64_t>(std::min<uint64_t>(bytes, kNoLimit));
}

uint64_t memory_left() {
  const int64_t process = most.load() - std::min(held.load(), most.load());
  const int64_t thread = most_made == kNoLimit ? kNoLimit : std::max<int64_t>(most_made - made, 0);
  return static_cast<uint64_t>(std::min(process, thread));
}

uint64_t default_memory_limit() {
  const auto machine =
      static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(machine / 4 * 3, container_memory() / 32 * 31);
}

MemoryScope::MemoryScope(uint64_t bytes) : outer_(most_made) {
  install();
  const auto room = static_cast<int64_t>(std::min<uint64_t>(bytes, kNoLimit / 2));
  most_made = std::min(outer_, made + room);
}

MemoryScope::~MemoryScope() { most_made = outer_; }

}  // namespace pare
