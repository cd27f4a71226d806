// Where the tests find files: goldens in the source tree, and shared checkpoints that are not part of it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace pare {

// A file under tests/data.
inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(PARE_SOURCE_DIR) / "tests" / "data" / name;
}

// A file of the shared folder: $PARE_SHARED/data, or ../shared/data beside the source tree. Empty when it is absent,
// and the test then says that it is skipped.
inline std::filesystem::path shared_data(const std::string& name) {
  const char* shared = std::getenv("PARE_SHARED");
  const std::filesystem::path folder =
      shared != nullptr ? std::filesystem::path(shared) : std::filesystem::path(PARE_SOURCE_DIR "/../shared");
  const std::filesystem::path path = folder / "data" / name;
  return std::filesystem::exists(path) ? path : std::filesystem::path();
}

}  // namespace pare
