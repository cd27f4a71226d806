// TensorBoard event files: scalars over steps, one file per start of a run. The format is TFRecord (length, masked
// CRC-32C of the length, data, masked CRC-32C of the data) around tensorflow.Event messages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace pare {

class EventWriter {
 public:
  // Makes the directory. A run that goes on from `step` says so, and TensorBoard forgets what an earlier file has from
  // there. Error{file} when it cannot be written.
  explicit EventWriter(const std::filesystem::path& directory, int64_t step = 0);

  void scalar(std::string_view tag, double value, int64_t step);
  void flush();

  const std::filesystem::path& path() const { return path_; }

 private:
  void record(const std::string& event);

  std::filesystem::path path_;
  std::ofstream out_;
};

// CRC-32C (Castagnoli), as iSCSI defines it.
uint32_t crc32c(std::string_view bytes);

}  // namespace pare
