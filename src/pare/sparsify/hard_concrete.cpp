#include "pare/sparsify/hard_concrete.h"

#include <ATen/ATen.h>

#include <cmath>

#include "pare/error.h"

namespace pare {

namespace {

constexpr double kTemperature = 2.0 / 3;
constexpr double kGamma = -0.1;
constexpr double kZeta = 1.1;
constexpr double kEpsilon = 1e-6;

std::string gate_name(const std::string& tensor) { return tensor + ".gate_log_alpha"; }

at::Tensor stretch(const at::Tensor& v) { return (v * (kZeta - kGamma) + kGamma).clamp(0, 1); }

}  // namespace

HardConcrete::HardConcrete(const HardConcreteOptions& options, std::vector<std::string> tensors)
    : options_(options), tensors_(std::move(tensors)) {
  if (!(options.lambda >= 0))
    throw Error(ErrorKind::usage, OptionName{"lambda"}, "expected 0 or more, found {}", options.lambda);
  if (!(options.drop_rate > 0 && options.drop_rate < 1))
    throw Error(ErrorKind::usage, OptionName{"drop-rate"}, "expected a part in (0, 1), found {}", options.drop_rate);
  if (!(options.gate_rate > 0))
    throw Error(ErrorKind::usage, OptionName{"mask-rate"}, "expected a positive number, found {}", options.gate_rate);
}

at::Tensor HardConcrete::sample(const at::Tensor& log_alpha, const at::Tensor& u) {
  return stretch(at::sigmoid((at::log(u) - at::log1p(-u) + log_alpha) / kTemperature));
}

at::Tensor HardConcrete::test_gate(const at::Tensor& log_alpha) { return stretch(at::sigmoid(log_alpha)); }

at::Tensor HardConcrete::probability_nonzero(const at::Tensor& log_alpha) {
  return at::sigmoid(log_alpha - kTemperature * std::log(-kGamma / kZeta));
}

TensorMap HardConcrete::extra(const TensorMap& parameters) const {
  TensorMap gates;
  for (const auto& name : tensors_)
    gates[gate_name(name)] =
        at::full_like(parameters.at(name), std::log((1 - options_.drop_rate) / options_.drop_rate));
  return gates;
}

TensorMap HardConcrete::effective(const TensorMap& raw, const TrainPosition&) const {
  TensorMap result = raw;
  for (const auto& name : tensors_) {
    const at::Tensor& log_alpha = raw.at(gate_name(name));
    const at::Tensor u = at::rand_like(log_alpha.detach()) * (1 - 2 * kEpsilon) + kEpsilon;
    result[name] = raw.at(name) * sample(log_alpha, u);
  }
  return result;
}

TensorMap HardConcrete::finished(const TensorMap& raw, const TrainPosition&) const {
  TensorMap result = raw;
  for (const auto& name : tensors_) result[name] = raw.at(name) * test_gate(raw.at(gate_name(name)));
  return result;
}

at::Tensor HardConcrete::penalty(const TensorMap& raw, const TrainPosition&) const {
  if (options_.lambda == 0) return {};
  at::Tensor sum;
  for (const auto& name : tensors_) {
    const at::Tensor part = probability_nonzero(raw.at(gate_name(name))).sum();
    sum = sum.defined() ? sum + part : part;
  }
  return sum * options_.lambda;
}

ParameterSettings HardConcrete::settings(const std::string& name) const {
  if (!name.ends_with(gate_name(""))) return {};
  return {.rate = options_.gate_rate, .decay = false, .adam = options_.adam};
}

void HardConcrete::after_step(TensorMap& raw, Optimizer&, const TrainPosition&) {
  const at::NoGradGuard no_grad;
  for (const auto& name : tensors_) raw.at(gate_name(name)).clamp_(std::log(1e-2), std::log(1e2));
}

TensorMap HardConcrete::masks(const TensorMap& raw) const {
  TensorMap result;
  for (const auto& name : tensors_) result[name] = (test_gate(raw.at(gate_name(name)).detach()) > 0).contiguous();
  return result;
}

}  // namespace pare
