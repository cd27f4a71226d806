// Shared by the tests of the readers.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "pare/core/file.h"
#include "pare/error.h"
#include "pare/io/byte_source.h"
#include "pare/io/named_tensors.h"
#include "support/paths.h"

namespace pare {

// The error that `run` throws; the test fails when there is none.
inline Error error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "expected an Error";
  return Error(ErrorKind::failed, "", "no error");
}

inline void expect_error(ErrorKind kind, std::string_view part, const std::function<void()>& run) {
  const Error error = error_of(run);
  EXPECT_EQ(to_string(error.kind()), to_string(kind)) << error.what();
  EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
}

inline std::string text_of_file(const std::filesystem::path& path) {
  return std::string(MappedFile::open(path)->text());
}

inline std::filesystem::path temporary_file(const std::string& name) {
  return std::filesystem::path(testing::TempDir()) / ("pare_io_" + std::to_string(::getpid()) + "_" + name);
}

template <typename T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

template <typename T>
std::vector<T> values_of(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.contiguous();
  return {plain.data_ptr<T>(), plain.data_ptr<T>() + plain.numel()};
}

// Every prefix of a file must fail with an Error, and every flipped bit must load or fail with one.
inline void expect_robust(const std::string& file, const std::function<void(const ByteSource&)>& parse) {
  for (size_t length = 0; length < file.size(); ++length)
    EXPECT_THROW(parse(ByteSource::copy(std::string_view(file).substr(0, length), "cut")), Error) << length;
  size_t refused = 0;
  for (size_t bit = 0; bit < 8 * file.size(); ++bit) {
    std::string damaged = file;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    try {
      parse(ByteSource::copy(damaged, "flipped"));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0u);
}

}  // namespace pare
