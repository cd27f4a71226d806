#include "pare/train/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <cmath>

#include "pare/error.h"

namespace pare {

void OptimizerOptions::describe(OptionVisitor& options) {
  options.essential().field("optimizer", optimizer, "how weights are updated");
  options.essential().field("lr", lr, "learning rate; the schedule's largest");
  options.field("momentum", momentum, "part of the last step that is kept");
  options.field("nesterov", nesterov, "Nesterov's momentum");
  options.field("weight-decay", weight_decay, "L2 penalty (adamw: decoupled)");
  options.field("decay-weights-only", decay_weights_only, "no decay of biases and batch norms");
  options.field("beta1", beta1, "decay of the first moment");
  options.field("beta2", beta2, "decay of the second moment");
  options.field("epsilon", epsilon, "added to the denominator");
  options.only({"momentum", "nesterov"}, {with("optimizer", {"sgd"})});
  options.only({"beta1", "beta2", "epsilon"}, {with("optimizer", {"adam", "adamw"})});
  options.only({"decay-weights-only"}, {without("weight-decay", {"0.0"})});
}

void OptimizerOptions::check() const {
  if (!(lr > 0) || !std::isfinite(lr))
    throw Error(ErrorKind::usage, OptionName{"lr"}, "expected a positive number, found {}", lr);
  if (!(momentum >= 0 && momentum < 1))
    throw Error(ErrorKind::usage, OptionName{"momentum"}, "expected 0 to 1, found {}", momentum);
  if (nesterov && momentum == 0) throw Error(ErrorKind::usage, OptionName{"nesterov"}, "needs `momentum` above 0");
  if (!(weight_decay >= 0))
    throw Error(ErrorKind::usage, OptionName{"weight-decay"}, "expected 0 or more, found {}", weight_decay);
  for (const double beta : {beta1, beta2})
    if (!(beta >= 0 && beta < 1)) throw Error(ErrorKind::usage, "`beta1`, `beta2`", "expected 0 to 1, found {}", beta);
  if (!(epsilon >= 0)) throw Error(ErrorKind::usage, OptionName{"epsilon"}, "expected 0 or more, found {}", epsilon);
}

namespace {

constexpr int64_t kGrain = 1 << 15;  // elements for which another thread is worth waking

// Loops of their own, over values and not references, so that they are vectorised.
#if defined(__GNUC__) && !defined(__clang__)
#define PARE_VECTORISED __attribute__((optimize("O3")))
#else
#define PARE_VECTORISED
#endif

template <typename T>
struct SgdStep {
  T lr, momentum, decay, scale;
  T along_gradient, along_velocity;  // Nesterov: 1 and μ; plain momentum: 0 and 1
};

template <typename T>
PARE_VECTORISED void sgd(T* __restrict w, const T* __restrict g, T* __restrict v, int64_t count,
                         const SgdStep<T> step) {
  for (int64_t i = 0; i < count; ++i) {
    const T d = step.scale * g[i] + step.decay * w[i];
    const T moved = step.momentum * v[i] + d;
    v[i] = moved;
    w[i] -= step.lr * (step.along_gradient * d + step.along_velocity * moved);
  }
}

template <typename T>
struct AdamStep {
  T lr, beta1, beta2, epsilon, decay, shrink, scale;  // w is multiplied by `shrink` first
  T root;                                             // √(1 − β₂ᵗ); lr has 1 / (1 − β₁ᵗ) in it
};

template <typename T>
PARE_VECTORISED void adam(T* __restrict w, const T* __restrict g, T* __restrict m, T* __restrict v, int64_t count,
                          const AdamStep<T> step) {
  for (int64_t i = 0; i < count; ++i) {
    const T d = step.scale * g[i] + step.decay * w[i];
    m[i] = step.beta1 * m[i] + (1 - step.beta1) * d;
    v[i] = step.beta2 * v[i] + (1 - step.beta2) * d * d;
    w[i] = w[i] * step.shrink - step.lr * m[i] / (std::sqrt(v[i]) / step.root + step.epsilon);
  }
}

#undef PARE_VECTORISED

}  // namespace

at::Tensor& Optimizer::moment(const std::string& kind, const std::string& name, const at::Tensor& like) {
  auto& tensor = state_[kind + "/" + name];
  if (!tensor.defined())
    tensor = at::zeros_like(like);
  else if (tensor.sizes() != like.sizes())
    throw Error(ErrorKind::shape, name, "the optimiser's state of it has another shape");
  else if (tensor.strides() != like.strides())  // out of a checkpoint
    tensor = at::empty_like(like).copy_(tensor);
  return tensor;
}

std::vector<std::string> moment_keys(const std::string& name) {
  return {"velocity/" + name, "first/" + name, "second/" + name};
}

void Optimizer::restore(const TensorMap& state) {
  state_ = state;
  for (auto& [key, tensor] : state_) tensor = tensor.clone();
}

void Optimizer::forget(const std::string& name, const at::Tensor& mask) {
  const at::NoGradGuard no_grad;
  for (const auto& key : moment_keys(name))
    if (const auto found = state_.find(key); found != state_.end())
      found->second.mul_(mask.to(found->second.scalar_type()));
}

void Optimizer::step(TensorMap& raw, double lr, double gradient_scale,
                     const std::function<ParameterSettings(const std::string&)>& settings) {
  const at::NoGradGuard no_grad;
  auto& steps = state_["steps"];
  steps = steps.defined() ? steps + 1 : at::ones({}, at::kDouble);
  const auto count = steps.item<double>();
  for (auto& [name, w] : raw) {
    if (!w.grad().defined()) continue;
    update(name, w, {.lr = lr, .scale = gradient_scale, .count = count},
           settings ? settings(name) : ParameterSettings{});
    w.mutable_grad() = at::Tensor();
  }
}

void Optimizer::update(const std::string& name, const at::Tensor& w, const Step& step, const ParameterSettings& own) {
  if (!w.is_non_overlapping_and_dense())
    throw Error(ErrorKind::failed, name, "a trained tensor must lie densely in memory");
  const at::Tensor g = w.grad().strides() == w.strides() ? w.grad() : at::empty_like(w).copy_(w.grad());
  const double rate = step.lr * own.rate;
  const double decay = own.decay && !(options_.decay_weights_only && w.dim() <= 1) ? options_.weight_decay : 0.0;
  const bool by_sgd = options_.optimizer == OptimizerKind::sgd && !own.adam;
  const bool decoupled = options_.optimizer == OptimizerKind::adamw;
  const at::Tensor first = moment(by_sgd ? "velocity" : "first", name, w);
  const at::Tensor second = by_sgd ? at::Tensor() : moment("second", name, w);
  AT_DISPATCH_FLOATING_TYPES(w.scalar_type(), "optimizer", [&] {
    const auto as = [](double value) { return static_cast<scalar_t>(value); };
    const SgdStep<scalar_t> sgd_step{
        as(rate),       as(options_.momentum),         as(decay),
        as(step.scale), as(options_.nesterov ? 1 : 0), as(options_.nesterov ? options_.momentum : 1)};
    const AdamStep<scalar_t> adam_step{as(rate / (1 - std::pow(options_.beta1, step.count))),
                                       as(options_.beta1),
                                       as(options_.beta2),
                                       as(options_.epsilon),
                                       as(decoupled ? 0 : decay),
                                       as(decoupled ? 1 - rate * decay : 1),
                                       as(step.scale),
                                       as(std::sqrt(1 - std::pow(options_.beta2, step.count)))};
    auto* pw = w.data_ptr<scalar_t>();
    const auto* pg = g.data_ptr<scalar_t>();
    auto* pm = first.data_ptr<scalar_t>();
    auto* pv = by_sgd ? nullptr : second.data_ptr<scalar_t>();
    at::parallel_for(0, w.numel(), kGrain, [&](int64_t begin, int64_t end) {
      if (by_sgd)
        sgd(pw + begin, pg + begin, pm + begin, end - begin, sgd_step);
      else
        adam(pw + begin, pg + begin, pm + begin, pv + begin, end - begin, adam_step);
    });
  });
}

double gradient_norm(const TensorMap& raw) {
  const at::NoGradGuard no_grad;
  double sum = 0;
  for (const auto& [name, w] : raw)
    if (w.grad().defined()) sum += std::pow(w.grad().norm().item<double>(), 2);
  return std::sqrt(sum);
}

}  // namespace pare
