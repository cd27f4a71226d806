// Inputs that a graph takes, of random numbers. Heights, widths and lengths that it leaves open are those at which
// analyses see it, so that what is counted and what is run is one network.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "pare/analysis/shapes.h"
#include "pare/exec/index_range.h"
#include "pare/run.h"

namespace pare {
namespace {

int64_t integers_below(const Graph& graph, const ValueInfo& input) {
  if (input.dtype == at::kBool) return 2;
  return std::max<int64_t>(1, index_limit(graph, input.name).value_or(10));
}

bool is_open_beyond_the_first(const ValueInfo& input) {
  return input.dims && std::any_of(input.dims->begin() + (input.dims->empty() ? 0 : 1), input.dims->end(),
                                   [](const Dim& dim) { return !dim.fixed(); });
}

Shape extents_of(const ValueInfo& input, int64_t batch, const Shapes& shapes) {
  if (!input.dims)
    throw Error(ErrorKind::usage, input.name, "its rank is not known: say `input-shape` {}=1x3x224x224 or what it is",
                input.name);
  if (const TensorType* type = shapes.find(input.name)) return type->dims;
  Shape dims;
  for (const auto& dim : *input.dims) dims.push_back(dim.fixed() ? dim.size : batch);
  return dims;
}

}  // namespace

std::vector<at::Tensor> random_inputs(const Graph& graph, int64_t batch, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const bool any_size = std::any_of(graph.inputs.begin(), graph.inputs.end(), is_open_beyond_the_first);
  const Shapes shapes = any_size ? analysis_shapes(graph, {.batch = batch}) : Shapes{};
  std::vector<at::Tensor> inputs;
  for (const auto& input : graph.inputs) {
    const TensorType type{input.dtype, extents_of(input, batch, shapes)};
    check_size(type, fmt::format("input '{}'", input.name));
    if (at::isFloatingType(input.dtype))
      inputs.push_back(at::randn(type.dims, generator, at::TensorOptions(at::kFloat)).to(input.dtype));
    else
      inputs.push_back(at::randint(0, integers_below(graph, input), type.dims, generator, at::TensorOptions(at::kLong))
                           .to(input.dtype));
  }
  return inputs;
}

}  // namespace pare
