// ONNX's own backend test models (Debian package libonnx-testdata): read, written, read again, judged by the checker.
#include <gtest/gtest.h>
#include <onnx/checker.h>
#include <onnx/shape_inference/implementation.h>

#include <fstream>
#include <iostream>
#include <map>

#include "onnx/compare.h"
#include "onnx/models.h"
#include "pare/error.h"
#include "pare/io/onnx/read.h"
#include "pare/io/onnx/tensor_pb.h"
#include "pare/io/onnx/write.h"

namespace pare {
namespace {

namespace fs = std::filesystem;
using namespace testing_onnx;

constexpr const char* kTestData = "/usr/share/libonnx-testdata/data";

std::vector<fs::path> test_files(const std::string& extension) {
  std::vector<fs::path> files;
  if (!fs::exists(kTestData)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(kTestData))
    if (entry.path().extension() == extension) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// Types and shapes agree everywhere, as far as libonnx can infer them.
bool passes_inference(onnx::ModelProto model) {
  try {
    const onnx::ShapeInferenceOptions strict(/*check_type=*/true, /*strict_mode=*/1);
    onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(), strict);
    return true;
  } catch (const std::exception& error) {
    return false;
  }
}

TEST(OnnxTestData, EveryModelReadsOrSaysWhyNot) {
  const auto models = test_files(".onnx");
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
  EXPECT_GT(read, 1000);
}

// Writing and reading gives the same graph, except where a marker of pare's own was written out. The checker of libonnx
// 1.12 knows opsets up to 17.
TEST(OnnxTestData, WhatIsWrittenReadsBackTheSame) {
  const auto models = test_files(".onnx");
  if (models.empty()) GTEST_SKIP() << kTestData << " is not installed (libonnx-testdata)";
  std::map<std::string, int> counts;
  for (const auto& path : models) {
    Graph graph;
    try {
      graph = read_onnx(path);
    } catch (const Error&) {
      continue;
    }
    bool marked = false;
    for (const auto& node : graph.nodes) marked = marked || node.has("flatten") || node.has("per_group");
    std::string bytes;
    WriteReport report;
    try {
      bytes = to_onnx_bytes(graph, {.opset = 13}, &report);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported) << path << " " << error.what();
      ++counts["not written: " + error.message()];
      continue;
    }
    EXPECT_EQ(bytes, to_onnx_bytes(graph, {.opset = 13})) << path;
    ++counts[report.opset == 13 ? "written in opset 13" : "written in another opset"];
    const Graph again = read_onnx_bytes(bytes_of(bytes), path.string());
    if (marked)
      ++counts["with a marker written out"];
    else
      EXPECT_EQ(difference(graph, again), "") << path;
    if (report.opset > 17) continue;
    onnx::ModelProto model;
    ASSERT_TRUE(model.ParseFromString(bytes));
    try {
      onnx::checker::check_model(model);
      ++counts["accepted by the checker"];
      onnx::ModelProto original;
      std::ifstream file(path, std::ios::binary);
      ASSERT_TRUE(original.ParseFromIstream(&file));
      if (passes_inference(original)) {
        ++counts["with types and shapes that agree"];
        EXPECT_TRUE(passes_inference(model)) << path;
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << path << " is refused by the checker: " << error.what();
    }
  }
  for (const auto& [what, count] : counts) std::cout << "  " << count << " × " << what << "\n";
}

TEST(OnnxTestData, ReadsBackTheSameFromEveryOpset) {
  const auto models = test_files(".onnx");
  if (models.empty()) GTEST_SKIP() << kTestData << " is not installed (libonnx-testdata)";
  for (const auto& path : models)
    for (const int64_t opset : {11, 12, 14, 16, 17, 18, 19, 20, 21}) {
      Graph graph;
      std::string bytes;
      try {
        graph = read_onnx(path);
        bytes = to_onnx_bytes(graph, {.opset = opset});
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::unsupported) << path << " " << error.what();
        continue;
      }
      bool spelled_out = false;  // a marker, or the default axis of Softmax, which was another one below 13
      for (const auto& node : graph.nodes)
        spelled_out = spelled_out || node.has("flatten") || node.has("per_group") || node.op.ends_with("max");
      const Graph again = read_onnx_bytes(bytes_of(bytes), path.string());
      const std::string found = spelled_out ? "" : difference(graph, again);
      EXPECT_EQ(found, "") << path << " " << opset;
    }
}

TEST(OnnxTestData, EveryTensorReadsOrSaysWhyNot) {
  const auto files = test_files(".pb");
  if (files.empty()) GTEST_SKIP() << kTestData << " is not installed (libonnx-testdata)";
  std::map<std::string, int> reasons;
  for (const auto& path : files) {
    try {
      EXPECT_TRUE(read_tensor_pb(path).defined());
      ++reasons["read"];
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
      ++reasons[error.message()];
    }
  }
  for (const auto& [reason, count] : reasons) std::cout << "  " << count << " × " << reason << "\n";
}

}  // namespace
}  // namespace pare
