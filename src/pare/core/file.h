// Files: read-only memory maps, and writing that either finishes or leaves nothing behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace pare {

// An open file, closed at the end. Only a regular one: a pipe or a device would hold the program up for ever, and is
// refused without waiting. Throws Error{file} when the path is missing, not a regular file or unreadable.
class RegularFile {
 public:
  explicit RegularFile(const std::filesystem::path& path);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  int descriptor() const { return descriptor_; }
  size_t size() const { return size_; }

 private:
  int descriptor_;
  size_t size_ = 0;
};

// A whole file as bytes, mapped copy-on-write: the bytes may be handed to tensors that nobody writes to.
// Throws Error{file} as RegularFile does.
class MappedFile {
 public:
  static std::shared_ptr<MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  MappedFile(std::byte* data, size_t size) : data_(data), size_(size) {}
  std::byte* data_;
  size_t size_;
};

// Calls `write` with a stream onto a temporary file beside `path`, flushes it to disk, then renames it over `path`.
// When anything throws, the temporary file is removed and what was at `path` stays.
void write_file_atomically(const std::filesystem::path& path, const std::function<void(std::ostream&)>& write);

// Throws Error{usage} when `path` exists and `force` is false, or Error{file} when its directory does not exist.
void check_writable(const std::filesystem::path& path, bool force);

// Makes a directory and those above it where they do not exist. Error{file} when it cannot be made or written into.
void make_directory(const std::filesystem::path& path);

// Lower-case hexadecimal SHA-256.
std::string sha256(std::span<const std::byte> bytes);
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace pare
