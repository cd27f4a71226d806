// ONNX's own backend test models (Debian package libonnx-testdata).
#include <gtest/gtest.h>

#include <iostream>
#include <map>

#include "pare/core/error.h"
#include "pare/io/onnx/read.h"

namespace pare {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTestData = "/usr/share/libonnx-testdata/data";

std::vector<fs::path> test_models() {
  std::vector<fs::path> models;
  if (!fs::exists(kTestData)) return models;
  for (const auto& entry : fs::recursive_directory_iterator(kTestData))
    if (entry.path().filename() == "model.onnx") models.push_back(entry.path());
  std::sort(models.begin(), models.end());
  return models;
}

TEST(OnnxTestData, EveryModelReadsOrSaysWhyNot) {
  const auto models = test_models();
  if (models.empty()) GTEST_SKIP() << kTestData << " is not installed (libonnx-testdata)";
  std::map<std::string, int> reasons;
  int read = 0;
  for (const auto& path : models) {
    try {
      read_onnx(path);
      ++read;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
      ++reasons[error.message()];
    }
  }
  std::cout << read << " of " << models.size() << " models read\n";
  for (const auto& [reason, count] : reasons) std::cout << "  " << count << " × " << reason << "\n";
  EXPECT_GT(read, 800);
}

}  // namespace
}  // namespace pare
