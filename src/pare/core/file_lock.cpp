#include "pare/core/file_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "pare/error.h"

namespace pare {

std::optional<FileLock> FileLock::try_take(const std::filesystem::path& file, uint64_t part) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) return FileLock(-1);
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(part >> 2);  // an offset in a file has 63 bits, and one byte must fit after it
  range.l_len = 1;
  if (::fcntl(descriptor, F_OFD_SETLK, &range) != 0 && (errno == EAGAIN || errno == EACCES)) {
    ::close(descriptor);
    return std::nullopt;
  }
  return FileLock(descriptor);
}

FileLock FileLock::take(const std::filesystem::path& file, uint64_t part, const std::function<void()>& waits,
                        const std::function<bool()>& stop) {
  for (bool told = false;; told = true) {
    if (auto lock = try_take(file, part)) return std::move(*lock);
    if (!told && waits) waits();
    if (stop && stop()) throw Error(ErrorKind::interrupted, file.string(), "interrupted while another process held it");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace pare
