#include "pare/io/zip.h"

#include <zlib.h>

#include "io/io_support.h"

namespace pare {
namespace {

using namespace std::string_literals;

// An archive built field by field, so that every field can be wrong.
struct ZipText {
  std::string local, central;
  int count = 0;

  void add(const std::string& name, const std::string& data, uint16_t method = 0, uint16_t flags = 0,
           bool zip64 = false) {
    const auto crc = static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(data.data()), data.size()));
    add_central(name, crc, data.size(), local.size(), method, flags, zip64);
    local += "PK\3\4" + raw(uint16_t{20}) + raw(flags) + raw(method) + std::string(4, '\0') + raw(crc) +
             raw(uint32_t(data.size())) + raw(uint32_t(data.size())) + raw(uint16_t(name.size())) + raw(uint16_t{0}) +
             name + data;
  }
  void add_central(const std::string& name, uint32_t crc, uint64_t size, uint64_t offset, uint16_t method = 0,
                   uint16_t flags = 0, bool zip64 = false) {
    const std::string extra = zip64 ? raw(uint16_t{1}) + raw(uint16_t{24}) + raw(size) + raw(size) + raw(offset) : "";
    const auto small = [&](uint64_t value) { return raw(zip64 ? ~uint32_t{0} : static_cast<uint32_t>(value)); };
    central += "PK\1\2" + std::string(4, '\0') + raw(flags) + raw(method) + std::string(4, '\0') + raw(crc) +
               small(size) + small(size) + raw(uint16_t(name.size())) + raw(uint16_t(extra.size())) +
               std::string(10, '\0') + small(offset) + name + extra;
    ++count;
  }
  std::string text() const { return local + central + end(count, central.size(), local.size()); }
  std::string text64() const {
    const std::string end64 = "PK\6\6" + raw(uint64_t{44}) + std::string(12, '\0') + raw(uint64_t(count)) +
                              raw(uint64_t(count)) + raw(uint64_t{central.size()}) + raw(uint64_t{local.size()});
    const std::string locator =
        "PK\6\7" + raw(uint32_t{0}) + raw(uint64_t{local.size() + central.size()}) + raw(uint32_t{1});
    return local + central + end64 + locator + end(0xffff, 0xffffffff, 0xffffffff);
  }
  static std::string end(uint64_t entries, uint64_t size, uint64_t offset) {
    return "PK\5\6" + std::string(4, '\0') + raw(uint16_t(entries)) + raw(uint16_t(entries)) + raw(uint32_t(size)) +
           raw(uint32_t(offset)) + raw(uint16_t{0});
  }
};

void open_all(const ByteSource& source) {
  const ZipArchive archive(source);
  for (const ZipEntry& entry : archive.entries()) archive.bytes(entry);
}

void expect_zip_error(ErrorKind kind, std::string_view part, const std::string& text) {
  expect_error(kind, part, [&] { open_all(ByteSource::copy(text, "test.zip")); });
}

TEST(Zip, ReadsStoredEntries) {
  for (const bool zip64 : {false, true}) {
    ZipText zip;
    zip.add("b/x", "hello", 0, 0, zip64);
    zip.add("a", "", 0, 0, zip64);
    const ByteSource source = ByteSource::copy(zip64 ? zip.text64() : zip.text(), "test.zip");
    const ZipArchive archive(source);
    ASSERT_EQ(archive.entries().size(), 2u);
    EXPECT_EQ(archive.entries()[0].name, "a");
    ASSERT_NE(archive.find("b/x"), nullptr);
    const auto bytes = archive.bytes(*archive.find("b/x"));
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "hello");
    EXPECT_EQ(archive.find("b"), nullptr);
  }
}

TEST(Zip, RefusesDamagedArchives) {
  ZipText good;
  good.add("a", "hello");
  expect_zip_error(ErrorKind::format, "no end record", good.local + good.central);
  std::string text = good.text();
  text[31] = 'j';
  expect_zip_error(ErrorKind::format, "CRC-32", text);
  ZipText named = good;
  named.local[30] = 'b';
  expect_zip_error(ErrorKind::format, "another name", named.text());
  ZipText twice = good;
  twice.add("a", "again");
  expect_zip_error(ErrorKind::format, "'a' twice", twice.text());
  ZipText bomb = good;  // the same bytes under a second entry
  bomb.add_central("a", 0, 5, 0);
  expect_zip_error(ErrorKind::format, "shares bytes", bomb.text());
  for (const auto& [size, offset] : std::vector<std::pair<uint64_t, uint64_t>>{
           {~uint64_t{0}, 0}, {6, 0}, {5, ~uint64_t{0}}, {5, 1}, {uint64_t{1} << 63, uint64_t{1} << 63}}) {
    ZipText wild;
    wild.add("a", "hello");
    wild.central.clear();
    wild.count = 0;
    wild.add_central("a", 0, size, offset, 0, 0, true);
    EXPECT_THROW(open_all(ByteSource::copy(wild.text(), "wild.zip")), Error) << size << " " << offset;
    EXPECT_THROW(open_all(ByteSource::copy(wild.text64(), "wild.zip")), Error) << size << " " << offset;
  }
  expect_zip_error(ErrorKind::format, "claims 65000 zip entries",
                   good.local + good.central + ZipText::end(65000, 47, 36));
  expect_zip_error(ErrorKind::format, "before byte", ZipText::end(1, 100, 4000));
}

TEST(Zip, RefusesCompressedAndEncryptedEntries) {
  ZipText deflated, encrypted;
  deflated.add("a", "hello", 8);
  encrypted.add("a", "hello", 0, 1);
  expect_zip_error(ErrorKind::unsupported, "'a' is compressed", deflated.text());
  expect_zip_error(ErrorKind::unsupported, "'a' is encrypted", encrypted.text());
}

TEST(Zip, SurvivesDamage) {
  ZipText zip;
  zip.add("a", "hello", 0, 0, true);
  zip.add("b", "world");
  expect_robust(zip.text(), open_all);
  expect_robust(zip.text64(), open_all);
}

}  // namespace
}  // namespace pare
