// Memory that tensors may take. ATen allocates through one counter, which refuses what goes beyond a limit: that of the
// process (set_memory_limit), or a closer one of the thread (MemoryScope). So a small file that asks for a huge tensor,
// or for many that double each other, ends in an error before the machine is out of memory. Mapped files do not count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

namespace pare {

// What the allocator throws. Whoever knows what was being made turns it into an Error{memory} that names it.
struct OutOfMemory : std::bad_alloc {
  OutOfMemory(uint64_t a, uint64_t h, uint64_t m) : asked(a), held(h), most(m) {}
  const char* what() const noexcept override { return "out of memory"; }
  uint64_t asked;  // bytes of the tensor that was refused
  uint64_t held;   // by tensors already
  uint64_t most;   // together
};

// "needs 8.6 GB beside the 1.2 GB in use; the limit is 6.0 GB"
std::string to_string(const OutOfMemory& refused);
// "1.5 GB"
std::string bytes_text(uint64_t bytes);

// For all threads; 0 for none. Any thread.
void set_memory_limit(uint64_t bytes);
// What this thread may still take; a very large number where nothing limits it.
uint64_t memory_left();
// Three quarters of the memory of the machine; in a container with less, nearly all that it has.
uint64_t default_memory_limit();

// While it lives, tensors that this thread makes may take `bytes` more than what it holds. Scopes may be nested.
class MemoryScope {
 public:
  explicit MemoryScope(uint64_t bytes);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  int64_t outer_;
};

}  // namespace pare
