#include "pare/core/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "pare/core/interrupt.h"
#include "pare/error.h"

namespace pare {

namespace fs = std::filesystem;

RegularFile::RegularFile(const fs::path& path)
    : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
  if (descriptor_ < 0) throw Error(ErrorKind::file, path.string(), "cannot be opened: {}", std::strerror(errno));
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode)) {
    size_ = static_cast<size_t>(status.st_size);
    return;
  }
  ::close(descriptor_);
  throw Error(ErrorKind::file, path.string(),
              S_ISDIR(status.st_mode) ? "is a directory, expected a file" : "is not a regular file");
}

RegularFile::~RegularFile() { ::close(descriptor_); }

std::shared_ptr<MappedFile> MappedFile::open(const fs::path& path) {
  const RegularFile file(path);
  void* data = nullptr;
  if (file.size() > 0) {
    data = ::mmap(nullptr, file.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE, file.descriptor(), 0);
    if (data == MAP_FAILED) throw Error(ErrorKind::file, path.string(), "cannot be mapped: {}", std::strerror(errno));
  }
  return std::shared_ptr<MappedFile>(new MappedFile(static_cast<std::byte*>(data), file.size()));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

namespace {

// Removes the temporary file unless it was renamed away.
struct TemporaryFile {
  explicit TemporaryFile(fs::path p) : path(std::move(p)) { remove_when_killed(path.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    std::error_code ignored;
    if (!renamed) fs::remove(path, ignored);
    forget_when_killed(path.c_str());
  }
  fs::path path;
  bool renamed = false;
};

void flush_to_disk(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool ok = fd >= 0 && ::fsync(fd) == 0;
  const int reason = errno;
  if (fd >= 0) ::close(fd);
  if (!ok) throw Error(ErrorKind::file, path.string(), "cannot be flushed to disk: {}", std::strerror(reason));
}

}  // namespace

void write_file_atomically(const fs::path& path, const std::function<void(std::ostream&)>& write) {
  TemporaryFile temporary(path.string() + fmt::format(".tmp{}", ::getpid()));
  errno = 0;
  std::ofstream out(temporary.path, std::ios::binary | std::ios::trunc);
  if (!out) throw Error(ErrorKind::file, path.string(), "cannot be written: {}", std::strerror(errno));
  write(out);
  out.close();
  if (!out) throw Error(ErrorKind::file, path.string(), "could not be written whole: {}", std::strerror(errno));
  flush_to_disk(temporary.path);
  std::error_code failed;
  fs::rename(temporary.path, path, failed);
  if (failed) throw Error(ErrorKind::file, path.string(), "cannot be replaced: {}", failed.message());
  temporary.renamed = true;
}

void check_writable(const fs::path& path, bool force) {
  std::error_code ignored;
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::is_directory(directory, ignored))
    throw Error(ErrorKind::file, path.string(), "the directory {} does not exist", directory.string());
  if (::access(directory.c_str(), W_OK) != 0)
    throw Error(ErrorKind::file, path.string(), "the directory {} is not writable", directory.string());
  if (fs::is_directory(path, ignored)) throw Error(ErrorKind::usage, path.string(), "is a directory, expected a file");
  if (!force && fs::exists(path, ignored))
    throw Error(ErrorKind::usage, path.string(), "exists already; `force` overwrites it");
}

void make_directory(const fs::path& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) throw Error(ErrorKind::file, path.string(), "the directory cannot be made: {}", failed.message());
  if (::access(path.c_str(), W_OK) != 0) throw Error(ErrorKind::file, path.string(), "the directory is not writable");
}

}  // namespace pare
