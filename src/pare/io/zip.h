// A minimal reader of zip archives as PyTorch writes them: stored entries, zip64 where needed, nothing extracted. The
// central directory is checked whole when the archive is opened: names are unique, and no two entries share bytes, so
// an archive can't hold more than its own size.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "pare/io/byte_source.h"

namespace pare {

struct ZipEntry {
  std::string_view name;
  uint64_t offset = 0;  // of its bytes in the source
  uint64_t size = 0;
  uint32_t crc = 0;
  uint16_t method = 0;  // 0: stored
  uint16_t flags = 0;
};

class ZipArchive {
 public:
  // Throws Error{format} when the archive is malformed. The source must outlive the archive.
  explicit ZipArchive(const ByteSource& source);

  std::span<const ZipEntry> entries() const { return entries_; }  // sorted by name
  const ZipEntry* find(std::string_view name) const;              // null when there is none

  // The bytes of an entry, checked against its CRC-32. Throws Error{unsupported} for compressed or encrypted entries.
  std::span<const std::byte> bytes(const ZipEntry& entry) const;

 private:
  const ByteSource& source_;
  std::vector<ZipEntry> entries_;
};

}  // namespace pare
