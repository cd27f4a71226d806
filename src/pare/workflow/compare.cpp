#include "pare/workflow/compare.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "pare/core/options.h"
#include "pare/error.h"
#include "pare/io/onnx/tensor_pb.h"
#include "pare/ops/op.h"
#include "pare/run.h"
#include "pare/workflow/declared_run.h"

namespace pare {

namespace fs = std::filesystem;

Difference compare_tensors(const std::string& name, const at::Tensor& found, const at::Tensor& expected,
                           const Tolerance& tolerance) {
  Difference difference{.name = name};
  if (found.sizes() != expected.sizes() || found.scalar_type() != expected.scalar_type()) {
    difference.problem =
        fmt::format("found {}, expected {}", to_string(TensorType{found.scalar_type(), found.sizes().vec()}),
                    to_string(TensorType{expected.scalar_type(), expected.sizes().vec()}));
    return difference;
  }
  if (found.numel() == 0) return difference;
  const at::Tensor a = found.to(at::kDouble);
  const at::Tensor b = expected.to(at::kDouble);
  const at::Tensor nan = at::isnan(a) & at::isnan(b);
  const at::Tensor same = (a == b) | nan;
  difference.elements = found.numel();
  difference.nan = nan.sum().item<int64_t>();
  const at::Tensor distance = at::where(same, at::zeros_like(a), at::abs(a - b));
  const at::Tensor bound = tolerance.absolute + tolerance.relative * at::abs(b);
  difference.outside = at::logical_not(same | (distance <= bound)).sum().item<int64_t>();
  difference.largest = at::nan_to_num(distance, INFINITY, INFINITY).max().item<double>();
  const double scale = at::nan_to_num(at::abs(b), 0, 0, 0).max().item<double>();
  difference.relative_to_largest = difference.largest == 0 ? 0 : difference.largest / std::max(scale, 1e-30);
  return difference;
}

namespace {

// Outputs on inputs that another model took; a model that cannot take them is not the same.
std::vector<at::Tensor> run_likewise(const DeclaredRun& program, const std::vector<at::Tensor>& inputs) {
  try {
    return program(inputs);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::shape) throw;
    throw Error(ErrorKind::verification, program.graph().name, "does not take the inputs of the other model: {}",
                error.what());
  }
}

}  // namespace

bool Verification::same() const { return std::ranges::all_of(outputs, &Difference::ok); }

void VerifyOptions::describe(OptionVisitor& options) {
  options.field("samples", samples, "random inputs to compare on");
  options.field("tolerance", tolerance.relative, "relative tolerance");
  options.field("absolute", tolerance.absolute, "absolute tolerance");
}

namespace {

// The inputs of one run after the other; nothing at the end.
using NextInputs = std::function<std::optional<std::vector<at::Tensor>>()>;

std::vector<Difference> compare(const Graph& a, const Graph& b, const NextInputs& next, const Tolerance& tolerance) {
  const at::NoGradGuard no_grad;
  if (a.inputs.size() != b.inputs.size() || a.outputs.size() != b.outputs.size())
    throw Error(ErrorKind::verification, b.name, "the models have {} and {} inputs, {} and {} outputs", a.inputs.size(),
                b.inputs.size(), a.outputs.size(), b.outputs.size());
  const DeclaredRun first(a);
  const DeclaredRun second(b);
  std::vector<Difference> worst(a.outputs.size());
  while (const auto inputs = next()) {
    const auto expected = first(*inputs);
    const auto found = run_likewise(second, *inputs);
    for (size_t i = 0; i < worst.size(); ++i) {
      const Difference now = compare_tensors(a.outputs[i].name, found[i], expected[i], tolerance);
      Difference& all = worst[i];
      all.name = now.name;
      all.largest = std::max(all.largest, now.largest);
      all.relative_to_largest = std::max(all.relative_to_largest, now.relative_to_largest);
      all.outside += now.outside;
      all.nan += now.nan;
      all.elements += now.elements;
      if (all.problem.empty()) all.problem = now.problem;
    }
  }
  return worst;
}

Verification verification(const Graph& a, const Graph& b, const NextInputs& next, const Tolerance& tolerance) {
  try {
    return {compare(a, b, next, tolerance)};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::verification) throw;
    Verification other;
    for (const auto& output : a.outputs) other.outputs.push_back({.name = output.name, .problem = error.message()});
    return other;
  }
}

}  // namespace

std::vector<Difference> compare_models(const Graph& a, const Graph& b,
                                       const std::vector<std::vector<at::Tensor>>& samples,
                                       const Tolerance& tolerance) {
  size_t next = 0;
  return compare(
      a, b, [&] { return next < samples.size() ? std::optional(samples[next++]) : std::nullopt; }, tolerance);
}

Verification verify(const Graph& a, const Graph& b, const Samples& samples, const VerifyOptions& options,
                    Observer& observer) {
  constexpr int64_t kAtOnce = 32;
  int64_t begin = 0;
  const auto next = [&]() -> std::optional<std::vector<at::Tensor>> {
    if (begin >= samples.size) return std::nullopt;
    const int64_t end = std::min(begin + kAtOnce, samples.size);
    observer.step("comparing", begin, samples.size);
    auto inputs = samples.inputs(begin, end);
    begin = end;
    return inputs;
  };
  return verification(a, b, next, options.tolerance);
}

Verification verify(const Graph& a, const Graph& b, const VerifyOptions& options, Observer& observer) {
  if (options.samples < 1)
    throw Error(ErrorKind::usage, OptionName{"samples"}, "expected at least 1, found {}", options.samples);
  int64_t done = 0;
  const auto next = [&]() -> std::optional<std::vector<at::Tensor>> {
    if (done == options.samples) return std::nullopt;
    observer.step("comparing", done, options.samples);
    return random_inputs(a, 1, options.seed + static_cast<uint64_t>(done++));
  };
  return verification(a, b, next, options.tolerance);
}

namespace {

// Outputs that change with the seed of the generator cannot be compared with recorded ones.
bool is_random(const Program& program, std::span<const at::Tensor> inputs) {
  for (const auto& node : program.graph().nodes)  // with a seed of their own: the generator is every runtime's choice
    if (kind_of(node) == OpKind::random) return true;
  at::manual_seed(1);
  const auto first = program.run(inputs).outputs;
  at::manual_seed(2);
  const auto second = program.run(inputs).outputs;
  for (size_t i = 0; i < first.size(); ++i)
    if (!first[i].equal(second[i])) return true;
  return false;
}

// A recorded tensor. NumPy has no bfloat16: ONNX's own data has its bits there, as uint16.
at::Tensor read_recorded(const fs::path& path, const ValueInfo& info) {
  const at::Tensor tensor = read_tensor_pb(path);
  const bool bits = info.dtype == at::kBFloat16 && tensor.scalar_type() == at::kInt;
  return bits ? tensor.to(at::kShort).view(at::kBFloat16) : tensor;
}

}  // namespace

std::vector<Difference> check_test_data(const Graph& graph, const fs::path& directory, const Tolerance& tolerance) {
  const at::NoGradGuard no_grad;
  const Program program(graph);
  std::vector<Difference> differences;
  for (int set = 0;; ++set) {
    const fs::path folder = directory / fmt::format("test_data_set_{}", set);
    if (!fs::is_directory(folder)) break;
    std::vector<at::Tensor> inputs;
    for (size_t i = 0; i < graph.inputs.size(); ++i)
      inputs.push_back(read_recorded(folder / fmt::format("input_{}.pb", i), graph.inputs[i]));
    const auto outputs = program.run(inputs).outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      differences.push_back(compare_tensors(graph.outputs[i].name, outputs[i],
                                            read_recorded(folder / fmt::format("output_{}.pb", i), graph.outputs[i]),
                                            tolerance));
      if (!differences.back().ok() && is_random(program, inputs))
        throw Error(ErrorKind::unsupported, graph.outputs[i].name,
                    "is drawn at random: there is nothing to compare it with");
    }
  }
  if (differences.empty())
    throw Error(ErrorKind::file, directory.string(), "has no test_data_set_0 with inputs and outputs");
  return differences;
}

}  // namespace pare
