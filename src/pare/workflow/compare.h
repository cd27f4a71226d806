// Are two models, or a model and its recorded outputs, the same? (pare/compare.h, and what commands need besides)
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "pare/compare.h"  // IWYU pragma: export
#include "pare/graph.h"

namespace pare {

// Outputs of b against those of a on the same inputs, matched by place: the largest differences of all samples, and the
// elements outside in all of them. Error{verification} when they cannot be compared: other numbers of inputs or
// outputs, or inputs that b does not take.
std::vector<Difference> compare_models(const Graph& a, const Graph& b,
                                       const std::vector<std::vector<at::Tensor>>& samples, const Tolerance& tolerance);

// ONNX's test-data layout: DIR/test_data_set_N/{input,output}_K.pb beside DIR/model.onnx.
std::vector<Difference> check_test_data(const Graph& graph, const std::filesystem::path& directory,
                                        const Tolerance& tolerance);

}  // namespace pare
