// Are two models, or a model and its recorded outputs, the same?
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "pare/core/graph.h"

namespace pare {

// |found − expected| relative to the largest |expected| of a tensor, and the element-wise test
// |found − expected| ≤ absolute + relative·|expected|.
struct Difference {
  std::string name;
  double largest = 0;  // largest |found − expected|
  double relative_to_largest = 0;
  int64_t outside = 0;  // elements that fail the element-wise test
  std::string problem;  // types or shapes that differ; empty when they agree
  bool ok() const { return problem.empty() && outside == 0; }
};

struct Tolerance {
  double relative = 1e-3;
  double absolute = 1e-5;
};

// NaN equals NaN, infinities equal themselves.
Difference compare_tensors(const std::string& name, const at::Tensor& found, const at::Tensor& expected,
                           const Tolerance& tolerance);

// Outputs of b against those of a on the same inputs, matched by place: the largest differences of all samples, and the
// elements outside in all of them. Error{verification} when they cannot be compared: other numbers of inputs or
// outputs, or inputs that b does not take.
std::vector<Difference> compare_models(const Graph& a, const Graph& b,
                                       const std::vector<std::vector<at::Tensor>>& samples, const Tolerance& tolerance);

// ONNX's test-data layout: DIR/test_data_set_N/{input,output}_K.pb beside DIR/model.onnx.
std::vector<Difference> check_test_data(const Graph& graph, const std::filesystem::path& directory,
                                        const Tolerance& tolerance);

}  // namespace pare
