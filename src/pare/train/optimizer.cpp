#include "pare/train/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <cmath>

#include "pare/core/error.h"

namespace pare {

void OptimizerOptions::describe(OptionVisitor& options) {
  options.field("optimizer", optimizer, "how weights are updated", {"sgd", "adam", "adamw"});
  options.field("lr", lr, "learning rate; the schedule's largest");
  options.field("momentum", momentum, "sgd: part of the last step that is kept");
  options.field("nesterov", nesterov, "sgd: Nesterov's momentum");
  options.field("weight-decay", weight_decay, "L2 penalty (adamw: decoupled)");
  options.field("decay-weights-only", decay_weights_only, "no decay of biases and batch norms");
  options.field("beta1", beta1, "adam: decay of the first moment");
  options.field("beta2", beta2, "adam: decay of the second moment");
  options.field("epsilon", epsilon, "adam: added to the denominator");
}

void OptimizerOptions::check() const {
  if (!(lr > 0) || !std::isfinite(lr))
    throw Error(ErrorKind::usage, "--lr", "expected a positive number, found {}", lr);
  if (!(momentum >= 0 && momentum < 1))
    throw Error(ErrorKind::usage, "--momentum", "expected 0 to 1, found {}", momentum);
  if (nesterov && momentum == 0) throw Error(ErrorKind::usage, "--nesterov", "needs --momentum above 0");
  if (!(weight_decay >= 0))
    throw Error(ErrorKind::usage, "--weight-decay", "expected 0 or more, found {}", weight_decay);
  for (const double beta : {beta1, beta2})
    if (!(beta >= 0 && beta < 1)) throw Error(ErrorKind::usage, "--beta1, --beta2", "expected 0 to 1, found {}", beta);
  if (!(epsilon >= 0)) throw Error(ErrorKind::usage, "--epsilon", "expected 0 or more, found {}", epsilon);
}

namespace {

constexpr int64_t kGrain = 1 << 15;  // elements for which another thread is worth waking

struct SgdStep {
  double lr, momentum, decay, scale;
  bool nesterov;
};

template <typename T>
void sgd(T* __restrict w, const T* __restrict g, T* __restrict v, int64_t count, const SgdStep& step) {
  const T lr = static_cast<T>(step.lr), mu = static_cast<T>(step.momentum), decay = static_cast<T>(step.decay),
          scale = static_cast<T>(step.scale);
  const T ahead = step.nesterov ? mu : 0, now = step.nesterov ? 1 : 0, velocity = step.nesterov ? 0 : 1;
  at::parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T d = scale * g[i] + decay * w[i];
      v[i] = mu * v[i] + d;
      w[i] -= lr * (now * d + (ahead + velocity) * v[i]);
    }
  });
}

struct AdamStep {
  double lr, beta1, beta2, epsilon, decay, shrink, scale;  // w is multiplied by `shrink` first
  double first_correction, second_correction;              // 1 − βᵗ
};

template <typename T>
void adam(T* __restrict w, const T* __restrict g, T* __restrict m, T* __restrict v, int64_t count,
          const AdamStep& step) {
  const T b1 = static_cast<T>(step.beta1), b2 = static_cast<T>(step.beta2), epsilon = static_cast<T>(step.epsilon),
          decay = static_cast<T>(step.decay), shrink = static_cast<T>(step.shrink), scale = static_cast<T>(step.scale),
          lr = static_cast<T>(step.lr / step.first_correction),
          root = static_cast<T>(std::sqrt(step.second_correction));
  at::parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T d = scale * g[i] + decay * w[i];
      m[i] = b1 * m[i] + (1 - b1) * d;
      v[i] = b2 * v[i] + (1 - b2) * d * d;
      w[i] = w[i] * shrink - lr * m[i] / (std::sqrt(v[i]) / root + epsilon);
    }
  });
}

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

void Optimizer::step(TensorMap& raw, double lr, double gradient_scale,
                     const std::function<ParameterSettings(const std::string&)>& settings) {
  const at::NoGradGuard no_grad;
  auto& steps = state_["steps"];
  steps = steps.defined() ? steps + 1 : at::ones({}, at::kDouble);
  const auto count = steps.item<double>();
  for (auto& [name, w] : raw) {
    at::Tensor g = w.grad();
    if (!g.defined()) continue;
    if (!w.is_non_overlapping_and_dense())
      throw Error(ErrorKind::failed, name, "a trained tensor must lie densely in memory");
    if (g.strides() != w.strides()) g = at::empty_like(w).copy_(g);
    const ParameterSettings own = settings ? settings(name) : ParameterSettings{};
    const double rate = lr * own.rate;
    const double decay = own.decay && !(options_.decay_weights_only && w.dim() <= 1) ? options_.weight_decay : 0.0;
    AT_DISPATCH_FLOATING_TYPES(w.scalar_type(), "optimizer", [&] {
      if (options_.optimizer == "sgd" && !own.adam) {
        sgd(w.data_ptr<scalar_t>(), g.data_ptr<scalar_t>(), moment("velocity", name, w).data_ptr<scalar_t>(), w.numel(),
            {rate, options_.momentum, decay, gradient_scale, options_.nesterov});
      } else {
        const bool decoupled = options_.optimizer == "adamw";
        auto& first = moment("first", name, w);
        adam(w.data_ptr<scalar_t>(), g.data_ptr<scalar_t>(), first.data_ptr<scalar_t>(),
             moment("second", name, w).data_ptr<scalar_t>(), w.numel(),
             {rate, options_.beta1, options_.beta2, options_.epsilon, decoupled ? 0 : decay,
              decoupled ? 1 - rate * decay : 1, gradient_scale, 1 - std::pow(options_.beta1, count),
              1 - std::pow(options_.beta2, count)});
      }
    });
    w.mutable_grad() = at::Tensor();
  }
}

double gradient_norm(const TensorMap& raw) {
  const at::NoGradGuard no_grad;
  double sum = 0;
  for (const auto& [name, w] : raw)
    if (w.grad().defined()) sum += std::pow(w.grad().norm().item<double>(), 2);
  return std::sqrt(sum);
}

}  // namespace pare
