// Tensor data kept in files beside a model ("external data").
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "pare/core/file.h"

namespace pare {

// The data files of one model. A location is a path relative to the model's directory and may not lead out of it, not
// even through a symbolic link.
class ExternalFiles {
 public:
  explicit ExternalFiles(std::filesystem::path directory) : directory_(std::move(directory)) {}

  // Bytes [offset, offset + size) of a file, shared with a memory map. Error{format} when they are not all there or the
  // location is not allowed, Error{file} when the file cannot be read; `where` names the tensor.
  std::shared_ptr<std::byte> bytes(const std::string& location, uint64_t offset, uint64_t size,
                                   const std::string& where);

  // Refuses a model that makes many copies of few bytes; called before a copy is made.
  void count_copy(uint64_t size, const std::string& where);

 private:
  std::shared_ptr<MappedFile> open(const std::string& location, const std::string& where);

  std::filesystem::path directory_;  // empty: there is none
  std::map<std::string, std::shared_ptr<MappedFile>> files_;
  uint64_t mapped_ = 0;
  uint64_t copied_ = 0;
};

}  // namespace pare
