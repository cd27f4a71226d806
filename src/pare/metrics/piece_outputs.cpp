#include "pare/metrics/piece_outputs.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "pare/error.h"

namespace pare {

std::vector<at::Tensor> taken_by(const Graph& graph, const std::vector<at::Tensor>& inputs) {
  if (inputs.size() != graph.inputs.size())
    throw Error(ErrorKind::shape, graph.name, "has {} inputs, the samples have {}", graph.inputs.size(), inputs.size());
  std::vector<at::Tensor> taken;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueInfo& input = graph.inputs[i];
    const bool flat = input.dims && input.dims->size() == 2 && inputs[i].dim() > 2;
    const bool other = at::isFloatingType(input.dtype) && inputs[i].scalar_type() != input.dtype;
    const at::Tensor shaped = flat ? inputs[i].flatten(1) : inputs[i];
    taken.push_back(other ? shaped.to(input.dtype) : shaped);
  }
  return taken;
}

int64_t piece_of(const Samples& samples) {
  constexpr int64_t kValues = 3 * 224 * 224, kMost = 64;
  int64_t values = 1;
  for (const auto& input : samples.inputs(0, 1)) values += input.numel();
  return std::clamp<int64_t>(kValues / values, 1, kMost);
}

PieceOutputs outputs_of(const std::vector<Program>& programs, const Samples& samples, int64_t begin, int64_t end) {
  PieceOutputs result{.begin = begin, .end = end};
  const std::vector<at::Tensor> inputs = samples.inputs(begin, end);
  for (const auto& program : programs) result.outputs.push_back(program.run(taken_by(program.graph(), inputs)).outputs);
  return result;
}

}  // namespace pare
