#include "pare/workflow/declared_run.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "pare/error.h"
#include "pare/ops/dtype.h"
#include "pare/ops/op.h"
#include "pare/passes/precision.h"

namespace pare {

namespace {

// Subgraphs and what looks at bits keep their types, and so must what they read: then each operator is widened by
// itself.
Graph runnable(const Graph& model) {
  const bool own = std::ranges::any_of(model.nodes, [](const Node& node) { return traits_of(node).own_types; });
  return own ? model : widened(model);
}

}  // namespace

DeclaredRun::DeclaredRun(const Graph& model) : program_(runnable(model)), outputs_(model.outputs) {}

std::vector<at::Tensor> DeclaredRun::operator()(std::span<const at::Tensor> inputs) const {
  std::vector<at::Tensor> wide;
  for (size_t i = 0; i < inputs.size(); ++i)
    wide.push_back(i < program_.graph().inputs.size() && program_.graph().inputs[i].dtype == at::kFloat
                       ? widened(inputs[i])
                       : inputs[i]);
  std::vector<at::Tensor> outputs = program_.run(wide).outputs;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (program_.graph().outputs[i].dtype != outputs_[i].dtype) outputs[i] = outputs[i].to(outputs_[i].dtype);
  return outputs;
}

namespace {

// "int64 [N, 3]"
std::string declared_text(const ValueInfo& input) {
  const std::string type = to_string(TensorType{input.dtype, {}});
  if (!input.dims) return type.substr(0, type.find(' '));
  std::vector<std::string> extents;
  for (const Dim& dim : *input.dims)
    extents.push_back(dim.fixed() && !dim.assumed ? std::to_string(dim.size) : dim.symbol.empty() ? "?" : dim.symbol);
  return fmt::format("{} [{}]", type.substr(0, type.find(' ')), fmt::join(extents, ", "));
}

bool fits(const ValueInfo& input, const at::Tensor& tensor) {
  if (!input.dims) return true;
  if (tensor.dim() != std::ssize(*input.dims)) return false;
  for (int64_t i = 1; i < tensor.dim(); ++i) {
    const Dim& dim = (*input.dims)[static_cast<size_t>(i)];
    if (dim.fixed() && !dim.assumed && dim.size != tensor.size(i)) return false;
  }
  return true;
}

}  // namespace

at::Tensor as_declared(const ValueInfo& input, const at::Tensor& tensor, const std::string& where) {
  const auto given = to_string(TensorType{tensor.scalar_type(), tensor.sizes().vec()});
  if (!fits(input, tensor))
    throw Error(ErrorKind::shape, where, "is {}, and the input '{}' is declared {}", given, input.name,
                declared_text(input));
  if (tensor.scalar_type() == input.dtype) return tensor;
  at::Tensor converted = tensor.to(input.dtype);
  if (at::isFloatingType(input.dtype)) return converted;
  const at::Tensor changed = converted.to(at::kDouble) != tensor.to(at::kDouble);
  if (changed.any().item<bool>())
    throw Error(ErrorKind::shape, where, "is {} and holds {}, and the input '{}' is declared {}", given,
                tensor.masked_select(changed)[0].item<double>(), input.name, declared_text(input));
  return converted;
}

std::vector<at::Tensor> run(const Graph& model, std::span<const at::Tensor> inputs) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> declared(inputs.begin(), inputs.end());
  for (size_t i = 0; i < declared.size() && i < model.inputs.size(); ++i)
    declared[i] = as_declared(model.inputs[i], declared[i], fmt::format("input {}", i));
  return DeclaredRun(model)(declared);
}

}  // namespace pare
