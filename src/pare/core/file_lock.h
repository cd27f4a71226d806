// Locks between processes that work in one directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

namespace pare {

// Held while it lives; gone with the process, however that ends. `part` tells several locks of one file apart. Where
// the file system has no locks everybody gets theirs.
class FileLock {
 public:
  // None while another process holds it. The file is made if it is not there.
  static std::optional<FileLock> try_take(const std::filesystem::path& file, uint64_t part = 0);
  // Waits for it. `waits` is called once if that takes time, `stop` all the while: Error{interrupted} when it says so.
  static FileLock take(const std::filesystem::path& file, uint64_t part, const std::function<void()>& waits,
                       const std::function<bool()>& stop);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace pare
