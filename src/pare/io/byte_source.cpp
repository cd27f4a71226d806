#include "pare/io/byte_source.h"

#include <algorithm>
#include <bit>

#include "pare/core/error.h"
#include "pare/core/file.h"

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
  std::string shown;
  for (const char c : text.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += c;
    }
  }
  if (!is_utf8(shown)) {
    for (char& c : shown)
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  return text.size() > longest ? shown + "..." : shown;
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80                   ? 1
                          : lead >= 0xc2 && lead < 0xe0 ? 2
                          : lead >= 0xe0 && lead < 0xf0 ? 3
                          : lead >= 0xf0 && lead < 0xf5 ? 4
                                                        : 0;
    if (length == 0 || length > text.size() - i) return false;
    uint32_t code = length == 1 ? lead : lead & (0x7fu >> length);
    for (size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xc0u) != 0x80u) return false;
      code = code << 6 | (next & 0x3fu);
    }
    const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    if (overlong || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    i += length;
  }
  return true;
}

}  // namespace pare
