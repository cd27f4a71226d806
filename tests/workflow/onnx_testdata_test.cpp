// ONNX's own backend tests (Debian package libonnx-testdata): every model passes, or is refused as unsupported by name.
#include <gtest/gtest.h>

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

TEST(OnnxTestData, EveryModelPassesOrIsRefusedByName) {
  if (!fs::is_directory(kRoot)) GTEST_SKIP() << "libonnx-testdata is not installed: nothing was compared";
  std::map<std::string, Tally> tallies;
  std::map<std::string, int> refused;
  for (const auto& family : fs::directory_iterator(kRoot)) {
    Tally& tally = tallies[family.path().filename()];
    for (const auto& folder : fs::directory_iterator(family.path())) {
      if (!fs::exists(folder.path() / "model.onnx")) continue;
      const std::string name = folder.path().filename();
      try {
        const Graph graph = read_onnx(folder.path() / "model.onnx");
        std::string problem =
            first_problem(check_test_data(graph, folder.path(), {.relative = 1e-3, .absolute = 1e-5}));
        if (problem.empty())
          problem =
              first_problem(check_test_data(simplify(graph), folder.path(), {.relative = 1e-3, .absolute = 1e-5}));
        if (problem.empty()) problem = inference_problem(graph);
        if (problem.empty())
          ++tally.passed;
        else
          tally.failed.push_back(name + ": " + problem);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::unsupported)
          ++tally.unsupported, ++refused[error.message()];
        else
          tally.failed.push_back(name + ": " + error.what());
      }
    }
  }
  Tally total;
  for (const auto& [family, tally] : tallies) {
    std::cout << fmt::format("{}: {} passed, {} failed, {} unsupported\n", family, tally.passed, tally.failed.size(),
                             tally.unsupported);
    total.passed += tally.passed;
    total.unsupported += tally.unsupported;
    total.failed.insert(total.failed.end(), tally.failed.begin(), tally.failed.end());
  }
  std::cout << fmt::format("all: {} passed, {} failed, {} unsupported\n", total.passed, total.failed.size(),
                           total.unsupported);
  for (const auto& failure : total.failed) ADD_FAILURE() << failure;
  EXPECT_GE(total.passed, 720);
  EXPECT_EQ(tallies["pytorch-converted"].passed, 82);
  EXPECT_EQ(tallies["pytorch-operator"].passed, 35);
}

}  // namespace
}  // namespace pare
