#include "pare/data/idx.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "datasets/bytes.h"
#include "pare/error.h"

namespace pare {
namespace {

TEST(Idx, ReadsPlainAndGzipAlike) {
  const std::string file = idx_of({2, 3, 2}, "abcdefghijkl");
  for (const std::string& bytes : {file, gzip_of(file)}) {
    const auto values = decode_idx(bytes_of(bytes), "idx");
    ASSERT_EQ(values.sizes(), at::IntArrayRef({2, 3, 2}));
    for (int i = 0; i < 12; ++i) EXPECT_EQ(values.flatten()[i].item<int>(), 'a' + i);
  }
  EXPECT_EQ(decode_idx(bytes_of(idx_of({0}, "")), "empty").numel(), 0);
}

TEST(Idx, ReadsGzipOfSeveralMembers) {
  const std::string file = idx_of({12}, "abcdefghijkl");
  const auto values = decode_idx(bytes_of(gzip_of(file.substr(0, 9)) + gzip_of(file.substr(9))), "members");
  EXPECT_EQ(values[11].item<int>(), 'l');
}

TEST(Idx, RefusesEveryTruncationAndAnyExtraByte) {
  const std::string file = idx_of({2, 3, 2}, "abcdefghijkl");
  for (const std::string& bytes : {file, gzip_of(file)}) {
    for (size_t size = 0; size < bytes.size(); ++size)
      EXPECT_THROW(decode_idx(bytes_of(std::string_view(bytes).substr(0, size)), "cut"), Error) << size;
    EXPECT_THROW(decode_idx(bytes_of(bytes + "x"), "longer"), Error);
  }
  EXPECT_THROW(decode_idx(bytes_of(gzip_of(file + "x")), "longer inside"), Error);
}

TEST(Idx, RefusesOtherMagicAndOtherTypes) {
  std::string file = idx_of({2}, "ab");
  EXPECT_THROW(decode_idx(bytes_of("\x89PNG\r\n"), "png"), Error);
  file[2] = '\x0d';
  EXPECT_THROW(decode_idx(bytes_of(file), "floats"), Error);
  file[2] = '\x08';
  for (const char dimensions : {'\x00', '\x05', '\xff'}) {
    file[3] = dimensions;
    EXPECT_THROW(decode_idx(bytes_of(file), "dimensions"), Error);
  }
}

// Neither a header that lies nor a gzip that swells may take memory the file cannot fill.
TEST(Idx, RefusesSizesThatTheFileCannotHold) {
  for (const auto& sizes : {std::vector<uint32_t>{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                            {0x80000000, 0x80000000, 4},
                            {60000, 28, 28},
                            {13}}) {
    EXPECT_THROW(decode_idx(bytes_of(idx_of(sizes, "abcdefghijkl")), "lie"), Error);
    EXPECT_THROW(decode_idx(bytes_of(gzip_of(idx_of(sizes, "abcdefghijkl"))), "lie"), Error);
  }
  // Found by fuzzing: no bytes at all, but sizes whose product overflows inside ATen, in either order.
  EXPECT_THROW(decode_idx(bytes_of(idx_of({0x0600e174, 0x08000000, 0x10170000, 0}, "")), "empty"), Error);
  EXPECT_THROW(decode_idx(bytes_of(idx_of({0, 0x0600e174, 0x08000000, 0x10170000}, "")), "empty"), Error);
  EXPECT_EQ(decode_idx(bytes_of(idx_of({0, 28, 28}, "")), "empty").numel(), 0);
  EXPECT_THROW(decode_idx(bytes_of(gzip_of(idx_of({4}, std::string(50'000'000, 'x')))), "bomb"), Error);
}

TEST(Idx, SurvivesEveryBitFlip) {
  const std::string plain = idx_of({2, 3, 2}, "abcdefghijkl");
  for (const std::string& file : {plain, gzip_of(plain)})
    for (size_t bit = 0; bit < file.size() * 8; ++bit) {
      std::string broken = file;
      broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << bit % 8));
      try {
        EXPECT_LE(decode_idx(bytes_of(broken), "flipped").numel(), 12);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::format) << error.what();
      }
    }
}

}  // namespace
}  // namespace pare
