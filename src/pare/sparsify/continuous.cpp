#include "pare/sparsify/continuous.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "pare/error.h"

namespace pare {

namespace {

constexpr double kRemoved = -20;  // a logit with a mask of 2e-9

std::string logit_name(const std::string& tensor) { return tensor + ".mask_logit"; }

}  // namespace

ContinuousSparsification::ContinuousSparsification(const ContinuousOptions& options, std::vector<std::string> tensors,
                                                   TensorMap start)
    : options_(options), tensors_(std::move(tensors)), start_(std::move(start)) {
  if (!std::isfinite(options.s_init)) throw Error(ErrorKind::usage, OptionName{"s-init"}, "expected a number");
  if (!(options.beta_final >= 1))
    throw Error(ErrorKind::usage, OptionName{"beta-final"}, "expected at least 1, found {}", options.beta_final);
  if (!(options.lambda >= 0))
    throw Error(ErrorKind::usage, OptionName{"lambda"}, "expected 0 or more, found {}", options.lambda);
  if (!(options.mask_rate > 0))
    throw Error(ErrorKind::usage, OptionName{"mask-rate"}, "expected a positive number, found {}", options.mask_rate);
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
  for (const auto& name : tensors_) {
    const at::Tensor m = at::sigmoid(raw.at(logit_name(name)) * b);
    soft_[name] = m;
    result[name] = raw.at(name) * (m * c);
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
  if (options_.lambda == 0) return {};
  at::Tensor sum;
  for (const auto& [name, m] : soft_) sum = sum.defined() ? sum + m.sum() : m.sum();
  return sum * options_.lambda;
}

ParameterSettings ContinuousSparsification::settings(const std::string& name) const {
  if (!name.ends_with(logit_name(""))) return {};
  return {.rate = options_.mask_rate, .decay = false};
}

TensorMap ContinuousSparsification::logits(const TensorMap& raw, const TensorMap& removed_before) const {
  TensorMap result;
  for (const auto& name : tensors_) {
    at::Tensor& s = result[name] = raw.at(logit_name(name)).detach();
    if (const auto mask = removed_before.find(name); mask != removed_before.end())
      s = at::where(mask->second, s, s.clamp_max(kRemoved));
  }
  return result;
}

TensorMap ContinuousSparsification::masks(const TensorMap& logits) {
  TensorMap result;
  for (const auto& [name, s] : logits) result[name] = (s > 0).contiguous();
  return result;
}

TensorMap ContinuousSparsification::next_round(const TensorMap& logits, const TensorMap& masks) const {
  TensorMap result;
  for (const auto& [name, s] : logits) {
    const at::Tensor& mask = masks.at(name);
    const at::Tensor next = (s * options_.beta_final).clamp_max(options_.s_init);
    const auto options = s.options();  // clang captures no structured binding
    const auto constant = [&](double value) { return at::full({}, value, options); };
    const at::Tensor kept = at::where(s > 0, next, constant(options_.s_init));
    const at::Tensor removed = at::where(s < 0, next, constant(kRemoved));
    result[name] = at::where(mask, kept, removed);
  }
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
