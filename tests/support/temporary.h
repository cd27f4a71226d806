// A directory that is there for as long as a test.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace pare {

class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const std::string& name)
      : path(std::filesystem::temp_directory_path() / ("pare_" + name + "_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  // A file in it, with the directories on the way.
  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    std::filesystem::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path / name;
  }

  std::filesystem::path path;
};

}  // namespace pare
