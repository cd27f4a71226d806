#include "pare/sparsify/slimming.h"

#include <ATen/ATen.h>

#include "pare/error.h"
#include "pare/ops/traits.h"

namespace pare {

std::vector<std::string> batch_norm_scales(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& node : graph.nodes)
    if (is_batch_norm(node) && graph.is_constant(node.inputs.at(1))) names.push_back(node.inputs[1]);
  if (names.empty()) throw Error(ErrorKind::unsupported, graph.name, "slimming needs batch norms, there are none");
  return names;
}

TensorMap Slimming::effective(const TensorMap& raw, const TrainPosition&) const { return raw; }

at::Tensor Slimming::penalty(const TensorMap& raw, const TrainPosition&) const {
  at::Tensor sum;
  for (const auto& name : scales_) {
    const at::Tensor part = raw.at(name).abs().sum();
    sum = sum.defined() ? sum + part : part;
  }
  return sum * rho_;
}

}  // namespace pare
