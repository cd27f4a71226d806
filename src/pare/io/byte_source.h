// Bytes that a reader parses: a mapped file or a buffer in memory, with the name that errors give it and the owner that
// keeps it alive. Every reader of this folder has an entry point that takes a ByteSource, so it is tested from memory.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "pare/core/text.h"

namespace pare {

// A reader may allocate the size of its source and this much more, whatever the bytes say.
inline constexpr uint64_t kReaderSlack = 64ull << 20;

struct ByteSource {
  std::string name;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;

  static ByteSource map(const std::filesystem::path& path);
  static ByteSource copy(std::string_view bytes, std::string name);

  std::string_view text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
};

// Walks over a part of a source; every step is checked against its end and throws Error{format} saying what was
// missing.
class ByteReader {
 public:
  explicit ByteReader(const ByteSource& source) : ByteReader(source, 0, source.bytes.size()) {}
  ByteReader(const ByteSource& source, uint64_t begin, uint64_t end);  // clipped to the source

  const ByteSource& source() const { return *source_; }
  uint64_t position() const { return position_; }  // in the source
  uint64_t remaining() const { return end_ - position_; }

  std::span<const std::byte> take(uint64_t count, std::string_view what);
  std::string_view text(uint64_t count, std::string_view what);
  std::string_view line(std::string_view what);  // up to the next '\n', which is consumed but not returned

  // Little-endian.
  template <std::integral T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }

 private:
  const ByteSource* source_;
  uint64_t position_;
  uint64_t end_;
};

std::optional<uint64_t> checked_add(uint64_t a, uint64_t b);
std::optional<uint64_t> checked_multiply(uint64_t a, uint64_t b);

// Text of a file as an error may show it: control bytes escaped, cut after 120 characters.
std::string printable(std::string_view text);

}  // namespace pare
