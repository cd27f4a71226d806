#include "pare/distill/averaged_adam.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace pare {

namespace {

double median(std::vector<double> numbers) {
  if (numbers.empty()) return 0;
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

}  // namespace

AveragedAdam::AveragedAdam(const Graph& graph, const std::vector<std::string>& names)
    : optimizer_({.optimizer = OptimizerKind::adam, .weight_decay = 0}) {
  std::vector<double> sizes;
  for (const auto& name : names) {
    const at::Tensor& tensor = graph.tensor(name);
    if (!tensor.is_floating_point()) continue;
    raw_[name] = tensor.detach().clone(at::MemoryFormat::Contiguous).requires_grad_();
    sizes.push_back(size_[name] = tensor.square().mean().sqrt().item<double>());
  }
  const double least = 0.1 * median(std::move(sizes));
  for (auto& [name, size] : size_) size = std::max(size, least);
}

void AveragedAdam::step(const at::Tensor& loss, double rate) {
  loss.backward();
  optimizer_.step(raw_, rate, 1, [&](const std::string& name) { return ParameterSettings{.rate = size_.at(name)}; });
  const at::NoGradGuard no_grad;
  const double part = 1 / (1 + 0.1 * static_cast<double>(++steps_));
  for (const auto& [name, tensor] : raw_) {
    at::Tensor& mean = averaged_[name];
    mean = mean.defined() ? mean + part * (tensor.detach() - mean) : tensor.detach().clone();
  }
}

}  // namespace pare
