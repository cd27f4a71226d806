#include "pare/io/zip.h"

#include <zlib.h>

#include <algorithm>

#include "pare/error.h"

namespace pare {

namespace {

constexpr uint32_t local_signature = 0x04034b50;
constexpr uint32_t central_signature = 0x02014b50;
constexpr uint32_t end_signature = 0x06054b50;
constexpr uint32_t end64_signature = 0x06064b50;
constexpr uint32_t locator64_signature = 0x07064b50;
constexpr uint64_t end_size = 22, locator64_size = 20;
constexpr uint64_t most_zip_entries = 100000;

struct CentralDirectory {
  uint64_t offset, size, entries;
};

void expect_signature(ByteReader& reader, uint32_t signature, std::string_view what) {
  const uint64_t position = reader.position();
  const auto found = reader.number<uint32_t>(what);
  if (found != signature)
    throw Error(ErrorKind::format, reader.source().name, "expected {} at byte {} ({:#010x}), found {:#010x}", what,
                position, signature, found);
}

// The end record is the last thing in the file but for a comment of up to 65535 bytes.
uint64_t find_end_record(const ByteSource& source) {
  const uint64_t size = source.bytes.size();
  for (uint64_t comment = 0; comment <= 0xffff && comment + end_size <= size; ++comment) {
    const uint64_t position = size - end_size - comment;
    if (source.text().substr(position, 4) != std::string_view("PK\5\6", 4)) continue;
    ByteReader length(source, position + 20, position + 22);
    if (length.number<uint16_t>("a comment's length") == comment) return position;
  }
  throw Error(ErrorKind::format, source.name, "the zip archive has no end record: the file is cut off or damaged");
}

CentralDirectory read_end64(const ByteSource& source, uint64_t end_record) {
  ByteReader locator(source, end_record < locator64_size ? 0 : end_record - locator64_size, end_record);
  expect_signature(locator, locator64_signature, "a zip64 locator");
  locator.take(4, "a zip64 locator");
  const auto offset = locator.number<uint64_t>("a zip64 locator");
  ByteReader reader(source, offset, end_record);
  expect_signature(reader, end64_signature, "a zip64 end record");
  reader.take(8 + 2 + 2 + 4 + 4 + 8, "a zip64 end record");
  CentralDirectory directory{};
  directory.entries = reader.number<uint64_t>("a zip64 end record");
  directory.size = reader.number<uint64_t>("a zip64 end record");
  directory.offset = reader.number<uint64_t>("a zip64 end record");
  return directory;
}

CentralDirectory find_directory(const ByteSource& source) {
  const uint64_t end_record = find_end_record(source);
  ByteReader reader(source, end_record + 10, source.bytes.size());
  CentralDirectory directory{};
  directory.entries = reader.number<uint16_t>("the end record");
  directory.size = reader.number<uint32_t>("the end record");
  directory.offset = reader.number<uint32_t>("the end record");
  if (directory.entries == 0xffff || directory.size == 0xffffffff || directory.offset == 0xffffffff)
    directory = read_end64(source, end_record);
  if (directory.offset > end_record || directory.size > end_record - directory.offset)
    throw Error(ErrorKind::format, source.name, "the zip directory: expected {} bytes at {} before byte {}",
                directory.size, directory.offset, end_record);
  if (directory.entries > most_zip_entries || directory.entries > directory.size / 46)
    throw Error(ErrorKind::format, source.name, "claims {} zip entries in a directory of {} bytes", directory.entries,
                directory.size);
  return directory;
}

// Replaces the sizes and the offset that are 0xffffffff by those of the zip64 extra field.
void read_zip64_extra(const ByteSource& source, uint64_t begin, uint64_t end, std::span<uint64_t* const> wide) {
  ByteReader extra(source, begin, end);
  while (extra.remaining() >= 4) {
    const auto tag = extra.number<uint16_t>("an extra field");
    const auto size = extra.number<uint16_t>("an extra field");
    const uint64_t field = extra.position();
    extra.take(size, "an extra field");
    if (tag != 1) continue;
    ByteReader reader(source, field, field + size);
    for (uint64_t* value : wide)
      if (*value == 0xffffffff) *value = reader.number<uint64_t>("a zip64 extra field");
    return;
  }
}

struct CentralEntry {
  ZipEntry entry;
  uint64_t local_offset;
};

CentralEntry read_central_entry(ByteReader& reader) {
  const ByteSource& source = reader.source();
  const std::string_view what = "a zip directory entry";
  expect_signature(reader, central_signature, what);
  CentralEntry read{};
  reader.take(4, what);
  read.entry.flags = reader.number<uint16_t>(what);
  read.entry.method = reader.number<uint16_t>(what);
  reader.take(4, what);
  read.entry.crc = reader.number<uint32_t>(what);
  uint64_t packed = reader.number<uint32_t>(what);
  read.entry.size = reader.number<uint32_t>(what);
  const auto name_length = reader.number<uint16_t>(what);
  const auto extra_length = reader.number<uint16_t>(what);
  const auto comment_length = reader.number<uint16_t>(what);
  reader.take(8, what);
  read.local_offset = reader.number<uint32_t>(what);
  read.entry.name = reader.text(name_length, what);
  const uint64_t extra = reader.position();
  reader.take(uint64_t{extra_length} + comment_length, what);
  uint64_t* const wide[] = {&read.entry.size, &packed, &read.local_offset};
  read_zip64_extra(source, extra, extra + extra_length, wide);
  if (read.entry.method == 0 && packed != read.entry.size)
    throw Error(ErrorKind::format, source.name, "entry '{}' is stored: expected {} bytes, found {}",
                printable(read.entry.name), read.entry.size, packed);
  if (read.entry.method != 0) read.entry.size = packed;
  return read;
}

// Where the entry's bytes begin: after its local header, whose name must be the directory's.
void locate_entry(const ByteSource& source, CentralEntry& central, uint64_t directory_offset) {
  ByteReader reader(source, central.local_offset, directory_offset);
  const std::string_view what = "a zip entry's header";
  expect_signature(reader, local_signature, what);
  reader.take(22, what);
  const auto name_length = reader.number<uint16_t>(what);
  const auto extra_length = reader.number<uint16_t>(what);
  if (reader.text(name_length, what) != central.entry.name)
    throw Error(ErrorKind::format, source.name, "entry '{}' has another name at its place",
                printable(central.entry.name));
  reader.take(extra_length, what);
  central.entry.offset = reader.position();
  if (central.entry.size > reader.remaining())
    throw Error(ErrorKind::format, source.name, "entry '{}': expected {} bytes, found {}",
                printable(central.entry.name), central.entry.size, reader.remaining());
}

void check_overlaps(const ByteSource& source, std::vector<CentralEntry>& entries) {
  std::sort(entries.begin(), entries.end(), [](auto& a, auto& b) { return a.local_offset < b.local_offset; });
  uint64_t end = 0;
  for (const CentralEntry& central : entries) {
    if (central.local_offset < end)
      throw Error(ErrorKind::format, source.name, "entry '{}' shares bytes with another",
                  printable(central.entry.name));
    end = central.entry.offset + central.entry.size;
  }
}

}  // namespace

ZipArchive::ZipArchive(const ByteSource& source) : source_(source) {
  const CentralDirectory directory = find_directory(source);
  ByteReader reader(source, directory.offset, directory.offset + directory.size);
  std::vector<CentralEntry> found;
  found.reserve(directory.entries);
  for (uint64_t i = 0; i < directory.entries; ++i) {
    found.push_back(read_central_entry(reader));
    locate_entry(source, found.back(), directory.offset);
  }
  check_overlaps(source, found);
  entries_.reserve(found.size());
  for (const CentralEntry& central : found) entries_.push_back(central.entry);
  std::sort(entries_.begin(), entries_.end(), [](auto& a, auto& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(entries_.begin(), entries_.end(), [](auto& a, auto& b) { return a.name == b.name; });
  if (twice != entries_.end())
    throw Error(ErrorKind::format, source.name, "holds the zip entry '{}' twice", printable(twice->name));
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), name,
                                      [](const ZipEntry& entry, std::string_view n) { return entry.name < n; });
  return found != entries_.end() && found->name == name ? &*found : nullptr;
}

std::span<const std::byte> ZipArchive::bytes(const ZipEntry& entry) const {
  if ((entry.flags & 1u) != 0)
    throw Error(ErrorKind::unsupported, source_.name, "entry '{}' is encrypted", printable(entry.name));
  if (entry.method != 0)
    throw Error(ErrorKind::unsupported, source_.name,
                "entry '{}' is compressed, expected it stored as torch.save does (zip -0 repacks an archive so)",
                printable(entry.name));
  const auto bytes = source_.bytes.subspan(entry.offset, entry.size);
  const auto crc = static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  if (crc != entry.crc)
    throw Error(ErrorKind::format, source_.name, "entry '{}' is damaged: expected CRC-32 {:08x}, found {:08x}",
                printable(entry.name), entry.crc, crc);
  return bytes;
}

}  // namespace pare
