#include "pare/core/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <ostream>

#include "pare/error.h"

namespace pare {
namespace {

std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// The examples of FIPS 180-4, and one message of 64 bytes less than a block boundary allows for the length.
TEST(Sha256, MatchesThePublishedExamples) {
  EXPECT_EQ(sha256(as_bytes("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256(as_bytes("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(as_bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(as_bytes(std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Opening a pipe that nobody writes into would wait for ever: the alarm ends the test program first.
TEST(MappedFile, IsARegularFile) {
  const auto pipe = std::filesystem::path(testing::TempDir()) / fmt::format("pare_pipe_{}", ::getpid());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  ::alarm(30);
  for (const auto& path : {pipe, std::filesystem::path("/dev/null"), std::filesystem::path(testing::TempDir())})
    EXPECT_THROW(MappedFile::open(path), Error) << path;
  ::alarm(0);
  std::filesystem::remove(pipe);
}

TEST(WriteFileAtomically, LeavesTheOldFileWhenTheWriterThrows) {
  const auto path = std::filesystem::path(testing::TempDir()) / "pare_atomic.txt";
  write_file_atomically(path, [](std::ostream& out) { out << "first"; });
  EXPECT_THROW(write_file_atomically(path,
                                     [](std::ostream& out) {
                                       out << "half";
                                       throw Error(ErrorKind::failed, "test", "stop");
                                     }),
               Error);
  EXPECT_EQ(MappedFile::open(path)->text(), "first");
  for (const auto& entry : std::filesystem::directory_iterator(testing::TempDir()))
    EXPECT_EQ(entry.path().string().find("pare_atomic.txt.tmp"), std::string::npos) << entry.path();
}

// A process that may write files of 4 kB sees what a full disk shows: the reason is given, and nothing is left.
TEST(WriteFileAtomically, SaysWhyAFileIsNotWhole) {
  const auto path = std::filesystem::path(testing::TempDir()) / "pare_full.bin";
  rlimit whole{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &whole), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{4096, whole.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  std::string said;
  try {
    write_file_atomically(path, [](std::ostream& out) { out << std::string(1 << 20, 'x'); });
  } catch (const Error& error) {
    said = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &whole);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(said.find("pare_full.bin: could not be written whole: File too large"), std::string::npos) << said;
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(MakeDirectory, MakesThoseAboveAndNamesWhatIsWrong) {
  const auto path = std::filesystem::path(testing::TempDir()) / "pare_made" / "below";
  make_directory(path);
  make_directory(path);  // it is there already
  EXPECT_TRUE(std::filesystem::is_directory(path));
  std::filesystem::remove_all(path.parent_path());
  EXPECT_THROW(make_directory("/proc/pare"), Error);
  EXPECT_THROW(make_directory("/dev/null"), Error);
}

TEST(MappedFile, NamesWhatIsWrong) {
  EXPECT_THROW(MappedFile::open("/nonexistent/file"), Error);
  EXPECT_THROW(MappedFile::open("/tmp"), Error);
}

}  // namespace
}  // namespace pare
