#include "pare/io/onnx/external.h"

#include "pare/error.h"

namespace pare {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kCopyAllowance = 64 << 20;  // bytes beyond the size of the files

// Is `path` inside `directory`, both without symbolic links?
bool lies_within(const fs::path& path, const fs::path& directory) {
  const auto [d, p] = std::mismatch(directory.begin(), directory.end(), path.begin(), path.end());
  return d == directory.end() && p != path.end();
}

fs::path resolve_location(const fs::path& directory, const std::string& location, const std::string& where) {
  const fs::path relative(location);
  if (location.empty() || location.find('\0') != std::string::npos || relative.is_absolute())
    throw Error(ErrorKind::format, where, "keeps its data at '{}', which is not a relative path", location);
  for (const auto& part : relative)
    if (part == "..")
      throw Error(ErrorKind::format, where, "keeps its data at '{}', outside the model's directory", location);
  std::error_code failed;
  const fs::path root = fs::canonical(directory, failed);
  if (failed) throw Error(ErrorKind::file, directory.string(), "cannot be read: {}", failed.message());
  fs::path path = fs::canonical(root / relative, failed);
  if (failed)
    throw Error(ErrorKind::file, where, "keeps its data in '{}', which cannot be read: {}", location, failed.message());
  if (!lies_within(path, root))
    throw Error(ErrorKind::format, where, "keeps its data at '{}', outside the model's directory", location);
  return path;
}

}  // namespace

std::shared_ptr<MappedFile> ExternalFiles::open(const std::string& location, const std::string& where) {
  if (directory_.empty())
    throw Error(ErrorKind::format, where, "keeps its data in the file '{}', but there is no directory to find it in",
                location);
  auto& file = files_[location];
  if (file) return file;
  try {
    file = MappedFile::open(resolve_location(directory_, location, where));
  } catch (const Error& error) {
    if (error.where() == where) throw;
    throw Error(error.kind(), where, "keeps its data in '{}', which {}", location, error.message());
  }
  mapped_ += file->size();
  return file;
}

std::shared_ptr<std::byte> ExternalFiles::bytes(const std::string& location, uint64_t offset, uint64_t size,
                                                const std::string& where) {
  auto file = open(location, where);
  if (offset > file->size() || size > file->size() - offset)
    throw Error(ErrorKind::format, where, "needs bytes {} to {} of '{}', which has {}", offset, offset + size, location,
                file->size());
  std::byte* first = file->data() + offset;
  return {std::move(file), first};
}

void ExternalFiles::count_copy(uint64_t size, const std::string& where) {
  copied_ += size;
  if (copied_ > mapped_ + kCopyAllowance)
    throw Error(ErrorKind::format, where, "the tensors need more bytes than their data files have");
}

}  // namespace pare
