#include "pare/sparsify/continuous.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "pare/core/error.h"

namespace pare {

namespace {

std::string logit_name(const std::string& tensor) { return tensor + ".mask_logit"; }

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// (w, s) → (c m ∘ w, Σ m) with m = σ(β s), and the way back
//   ∂w = c m ∘ ∂u,    ∂s = β m (1 − m) ∘ (c w ∘ ∂u + ∂Σ),
// each in one pass: a step of masked training costs little more than a dense one.
struct SoftMask : torch::autograd::Function<SoftMask> {
  static variable_list forward(AutogradContext* context, const at::Tensor& w, const at::Tensor& s, double beta,
                               double c) {
    const at::Tensor weights = w.contiguous();
    const at::Tensor m = at::mul(s.contiguous(), beta).sigmoid_();
    at::Tensor masked = at::empty_like(weights);
    double sum = 0;
    AT_DISPATCH_FLOATING_TYPES(weights.scalar_type(), "soft mask", [&] {
      const auto* from = weights.data_ptr<scalar_t>();
      const auto* soft = m.data_ptr<scalar_t>();
      auto* to = masked.data_ptr<scalar_t>();
      const auto scale = static_cast<scalar_t>(c);
      for (int64_t i = 0; i < weights.numel(); ++i) to[i] = from[i] * (soft[i] * scale);
      sum = m.sum().item<scalar_t>();
    });
    context->save_for_backward({weights, m});
    context->saved_data["beta"] = beta;
    context->saved_data["c"] = c;
    return {masked, at::full({}, sum, weights.options())};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor masked = gradients[0].contiguous();
    at::Tensor of_w = at::empty_like(saved[0]), of_s = at::empty_like(saved[0]);
    AT_DISPATCH_FLOATING_TYPES(of_w.scalar_type(), "soft mask", [&] {
      const auto beta = static_cast<scalar_t>(context->saved_data["beta"].toDouble());
      const auto c = static_cast<scalar_t>(context->saved_data["c"].toDouble());
      const auto sum = gradients[1].item<scalar_t>();
      const auto* w = saved[0].data_ptr<scalar_t>();
      const auto* m = saved[1].data_ptr<scalar_t>();
      const auto* u = masked.data_ptr<scalar_t>();
      auto* to_w = of_w.data_ptr<scalar_t>();
      auto* to_s = of_s.data_ptr<scalar_t>();
      for (int64_t i = 0; i < of_w.numel(); ++i) {
        to_w[i] = u[i] * (m[i] * c);
        to_s[i] = (u[i] * w[i] * c + sum) * (m[i] * (1 - m[i])) * beta;
      }
    });
    return {of_w, of_s, {}, {}};
  }
};

}  // namespace

ContinuousSparsification::ContinuousSparsification(const ContinuousOptions& options, std::vector<std::string> tensors,
                                                   TensorMap start)
    : options_(options), tensors_(std::move(tensors)), start_(std::move(start)) {
  if (!std::isfinite(options.s_init)) throw Error(ErrorKind::usage, "--s-init", "expected a number");
  if (!(options.beta_final >= 1))
    throw Error(ErrorKind::usage, "--beta-final", "expected at least 1, found {}", options.beta_final);
  if (!(options.lambda >= 0)) throw Error(ErrorKind::usage, "--lambda", "expected 0 or more, found {}", options.lambda);
  if (!(options.mask_rate > 0))
    throw Error(ErrorKind::usage, "--mask-rate", "expected a positive number, found {}", options.mask_rate);
}

double ContinuousSparsification::beta(const TrainPosition& at) const {
  const double t = at.steps > 1 ? static_cast<double>(at.step) / static_cast<double>(at.steps - 1) : 1.0;
  return std::pow(options_.beta_final, std::min(t, 1.0));
}

double ContinuousSparsification::rescale() const { return 1 + std::exp(-options_.s_init); }

TensorMap ContinuousSparsification::extra(const TensorMap& parameters) const {
  TensorMap logits;
  for (const auto& name : tensors_) {
    const auto start = start_.find(name);
    logits[logit_name(name)] =
        start != start_.end() ? start->second : at::full_like(parameters.at(name), options_.s_init);
  }
  return logits;
}

TensorMap ContinuousSparsification::effective(const TensorMap& raw, const TrainPosition& at) const {
  const double b = beta(at);
  const double c = rescale();
  TensorMap result = raw;
  kept_ = at::Tensor();
  for (const auto& name : tensors_) {
    const variable_list masked = SoftMask::apply(raw.at(name), raw.at(logit_name(name)), b, c);
    result[name] = masked[0];
    kept_ = kept_.defined() ? kept_ + masked[1] : masked[1];
  }
  return result;
}

TensorMap ContinuousSparsification::finished(const TensorMap& raw, const TrainPosition&) const {
  TensorMap result = raw;
  for (const auto& name : tensors_) {
    const at::Tensor& w = raw.at(name);
    result[name] = at::where(raw.at(logit_name(name)) > 0, w * rescale(), at::zeros({}, w.options()));
  }
  return result;
}

at::Tensor ContinuousSparsification::penalty(const TensorMap&, const TrainPosition&) const {
  return options_.lambda == 0 || !kept_.defined() ? at::Tensor() : kept_ * options_.lambda;
}

ParameterSettings ContinuousSparsification::settings(const std::string& name) const {
  if (!name.ends_with(logit_name(""))) return {};
  return {.rate = options_.mask_rate, .decay = false};
}

TensorMap ContinuousSparsification::logits(const TensorMap& raw) const {
  TensorMap result;
  for (const auto& name : tensors_) result[name] = raw.at(logit_name(name)).detach();
  return result;
}

TensorMap ContinuousSparsification::masks(const TensorMap& logits) {
  TensorMap result;
  for (const auto& [name, s] : logits) result[name] = (s > 0).contiguous();
  return result;
}

TensorMap ContinuousSparsification::next_round(const TensorMap& logits) const {
  TensorMap result;
  for (const auto& [name, s] : logits) result[name] = (s * options_.beta_final).clamp_max(options_.s_init);
  return result;
}

double ContinuousSparsification::undecided(const TensorMap& raw, const TrainPosition& at) const {
  const double b = beta(at);
  double open = 0;
  double all = 0;
  for (const auto& [name, s] : logits(raw)) {
    open += ((s * b).abs() < 4).sum().item<double>();
    all += static_cast<double>(s.numel());
  }
  return all == 0 ? 0 : open / all;
}

}  // namespace pare
