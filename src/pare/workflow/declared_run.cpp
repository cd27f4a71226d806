#include "pare/workflow/declared_run.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "pare/ops/dtype.h"
#include "pare/passes/precision.h"

namespace pare {

DeclaredRun::DeclaredRun(const Graph& model) : program_(widened(model)), outputs_(model.outputs) {}

std::vector<at::Tensor> DeclaredRun::operator()(std::span<const at::Tensor> inputs) const {
  std::vector<at::Tensor> wide;
  for (const auto& input : inputs) wide.push_back(widened(input));
  std::vector<at::Tensor> outputs = program_.run(wide).outputs;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (program_.graph().outputs[i].dtype != outputs_[i].dtype) outputs[i] = outputs[i].to(outputs_[i].dtype);
  return outputs;
}

std::vector<at::Tensor> run(const Graph& model, std::span<const at::Tensor> inputs) {
  const at::NoGradGuard no_grad;
  return DeclaredRun(model)(inputs);
}

}  // namespace pare
