// ONNX's own backend tests (Debian package libonnx-testdata): every model passes, or is refused as unsupported by name.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>

#include "pare/analysis/shapes.h"
#include "pare/error.h"
#include "pare/io/onnx/read.h"
#include "pare/ops/op.h"
#include "pare/passes/simplify.h"
#include "pare/run.h"
#include "pare/workflow/compare.h"

namespace pare {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = "/usr/share/libonnx-testdata/data";

struct Tally {
  int passed = 0;
  int unsupported = 0;
  std::vector<std::string> failed;
};

std::string first_problem(const std::vector<Difference>& differences) {
  for (const auto& d : differences)
    if (!d.ok()) return fmt::format("{}: {} ({} elements, largest {})", d.name, d.problem, d.outside, d.largest);
  return "";
}

// Types inferred for the outputs against the types of the recorded outputs is part of the run: infer must say what
// evaluate does, for the shapes of the test's inputs.
std::string inference_problem(const Graph& graph) {
  for (const auto& input : graph.inputs)
    if (!input.dims) return "";
  const Shapes shapes = infer_shapes(graph);
  for (const auto& input : graph.inputs)
    for (const auto& dim : *input.dims)
      if (!dim.fixed()) return "";
  for (const auto& output : graph.outputs) {
    const TensorType* type = shapes.find(output.name);
    if (type == nullptr || !output.dims) continue;
    if (type->dtype != output.dtype) return "inferred " + to_string(*type) + " for " + output.name;
    for (size_t i = 0; i < output.dims->size(); ++i) {
      const Dim& dim = (*output.dims)[i];
      if (output.dims->size() != type->dims.size() || (dim.fixed() && dim.size != type->dims[i]))
        return "inferred " + to_string(*type) + " for " + output.name;
    }
  }
  return "";
}

void check_case(const fs::path& folder, Tally& tally, std::map<std::string, int>& refused) {
  const std::string name = folder.filename();
  constexpr Tolerance close{.relative = 1e-3, .absolute = 1e-5};
  try {
    const Graph graph = read_onnx(folder / "model.onnx");
    std::string problem = first_problem(check_test_data(graph, folder, close));
    if (problem.empty()) problem = first_problem(check_test_data(simplify(graph), folder, close));
    if (problem.empty()) problem = inference_problem(graph);
    if (problem.empty())
      ++tally.passed;
    else
      tally.failed.push_back(name + ": " + problem);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::unsupported)
      ++tally.unsupported, ++refused[name + ": " + error.message()];
    else
      tally.failed.push_back(name + ": " + error.what());
  }
}

// Every folder of a directory that holds a model.
Tally check_directory(const fs::path& directory, std::map<std::string, int>& refused) {
  Tally tally;
  for (const auto& folder : fs::directory_iterator(directory))
    if (fs::exists(folder.path() / "model.onnx")) check_case(folder.path(), tally, refused);
  std::cout << fmt::format("{}: {} passed, {} failed, {} unsupported\n", directory.filename().string(), tally.passed,
                           tally.failed.size(), tally.unsupported);
  return tally;
}

TEST(OnnxTestData, EveryModelPassesOrIsRefusedByName) {
  if (!fs::is_directory(kRoot)) GTEST_SKIP() << "libonnx-testdata is not installed: nothing was compared";
  std::map<std::string, Tally> tallies;
  std::map<std::string, int> refused;
  Tally total;
  for (const auto& family : fs::directory_iterator(kRoot)) {
    const Tally tally = check_directory(family.path(), refused);
    total.passed += tally.passed;
    total.unsupported += tally.unsupported;
    total.failed.insert(total.failed.end(), tally.failed.begin(), tally.failed.end());
    tallies[family.path().filename()] = tally;
  }
  std::cout << fmt::format("all: {} passed, {} failed, {} unsupported\n", total.passed, total.failed.size(),
                           total.unsupported);
  for (const auto& failure : total.failed) ADD_FAILURE() << failure;
  if (std::getenv("PARE_PRINT_REFUSED") != nullptr)
    for (const auto& [reason, count] : refused) std::cout << "refused: " << reason << "\n";
  EXPECT_GE(total.passed, 1000);
  EXPECT_EQ(tallies["pytorch-converted"].passed, 82);
  EXPECT_EQ(tallies["pytorch-operator"].passed, 35);
}

// The node tests of the newest ONNX, as tests/peers/onnx_cases.py writes them into the directory PARE_ONNX_CASES.
TEST(OnnxTestData, EveryCaseOfTheNewestOnnxPassesOrIsRefusedByName) {
  const char* directory = std::getenv("PARE_ONNX_CASES");
  if (directory == nullptr) GTEST_SKIP() << "PARE_ONNX_CASES names no directory: tests/peers/onnx_cases.sh makes one";
  std::map<std::string, int> refused;
  const Tally tally = check_directory(directory, refused);
  for (const auto& [reason, count] : refused) std::cout << "refused: " << reason << "\n";
  for (const auto& failure : tally.failed) ADD_FAILURE() << failure;
  EXPECT_GE(tally.passed, 1100);
}

}  // namespace
}  // namespace pare
