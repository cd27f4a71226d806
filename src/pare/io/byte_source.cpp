#include "pare/io/byte_source.h"

#include <algorithm>
#include <bit>

#include "pare/core/file.h"
#include "pare/error.h"

namespace pare {

static_assert(std::endian::native == std::endian::little, "the readers copy little-endian numbers as they are");

ByteSource ByteSource::map(const std::filesystem::path& path) {
  const std::shared_ptr<MappedFile> file = MappedFile::open(path);
  return {path.string(), file->bytes(), file};
}

ByteSource ByteSource::copy(std::string_view bytes, std::string name) {
  // operator new aligns for every dtype, as a mapped page does.
  const std::shared_ptr<std::byte[]> buffer(new std::byte[bytes.size() + 1]);
  if (!bytes.empty()) std::memcpy(buffer.get(), bytes.data(), bytes.size());
  return {std::move(name), {buffer.get(), bytes.size()}, buffer};
}

ByteReader::ByteReader(const ByteSource& source, uint64_t begin, uint64_t end)
    : source_(&source), end_(std::min<uint64_t>(end, source.bytes.size())) {
  position_ = std::min(begin, end_);
}

std::span<const std::byte> ByteReader::take(uint64_t count, std::string_view what) {
  if (count > remaining())
    throw Error(ErrorKind::format, source_->name, "ends inside {} at byte {}: expected {} bytes, found {}", what,
                position_, count, remaining());
  const auto part = source_->bytes.subspan(position_, count);
  position_ += count;
  return part;
}

std::string_view ByteReader::text(uint64_t count, std::string_view what) {
  const auto part = take(count, what);
  return {reinterpret_cast<const char*>(part.data()), part.size()};
}

std::string_view ByteReader::line(std::string_view what) {
  const std::string_view rest = source_->text().substr(position_, remaining());
  const size_t length = rest.find('\n');
  if (length == std::string_view::npos)
    throw Error(ErrorKind::format, source_->name, "ends inside {} at byte {}: expected a line end", what, position_);
  position_ += length + 1;
  return rest.substr(0, length);
}

std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

std::optional<uint64_t> checked_multiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

std::string printable(std::string_view text) {
  constexpr size_t longest = 120;
  return text.size() > longest ? escape_controls(text.substr(0, longest)) + "..." : escape_controls(text);
}

}  // namespace pare
