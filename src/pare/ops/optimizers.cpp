// Steps of optimisers as operators (ai.onnx.preview.training): Adagrad, Momentum, Adam. Inputs: learning rate R, steps
// so far T, then all parameters X, their gradients G, and one or two lists of what is remembered of each. Outputs: the
// new X, and what is remembered now. G is regularised to g = norm_coefficient · X + G.
#include <ATen/ATen.h>

#include <cmath>

#include "pare/ops/common.h"
#include "pare/ops/families.h"

namespace pare {
namespace {
namespace optimizers {

using at::Tensor;
using Tensors = std::vector<Tensor>;

struct Step {
  double rate = 0;
  int64_t taken = 0;
  size_t count = 0;  // of parameters
};

// `lists` come after R and T, all of one length.
Step step_of(const EvalContext& context, size_t lists) {
  const size_t rest = context.inputs.size() < 2 ? 0 : context.inputs.size() - 2;
  if (rest == 0 || rest % lists != 0)
    throw Error(ErrorKind::format, describe(context.node), "has {} inputs, expected 2 and {} lists", rest + 2, lists);
  if (context.in(0).numel() != 1 || context.in(1).numel() != 1)
    throw Error(ErrorKind::format, describe(context.node), "its rate or its step is not one number");
  const Step step{context.in(0).item<double>(), context.in(1).item<int64_t>(), rest / lists};
  for (size_t i = 2; i < context.inputs.size(); ++i)
    if (context.in(i).sizes() != context.in(2 + (i - 2) % step.count).sizes())
      throw Error(ErrorKind::shape, describe(context.node), "input {} is {}, and its parameter {}", i,
                  to_string(context.in(i).sizes()), to_string(context.in(2 + (i - 2) % step.count).sizes()));
  return step;
}

// Parameter k's entry of a list.
const Tensor& entry(const EvalContext& context, const Step& step, size_t list, size_t k) {
  return context.in(2 + list * step.count + k);
}

Tensor regularised(const EvalContext& context, const Step& step, size_t k) {
  const double strength = context.node.real("norm_coefficient", 0);
  return entry(context, step, 0, k) * strength + entry(context, step, 1, k);
}

// H' = H + g²;  X' = X − R / (1 + T · decay) · g / (√H' + ε)
Tensors adagrad(const EvalContext& context) {
  const Step step = step_of(context, 3);
  const double rate = step.rate / (1 + static_cast<double>(step.taken) * context.node.real("decay_factor", 0));
  Tensors result(2 * step.count);
  for (size_t k = 0; k < step.count; ++k) {
    const Tensor g = regularised(context, step, k);
    const Tensor h = entry(context, step, 2, k) + g.square();
    result[k] = entry(context, step, 0, k) - rate * g / (h.sqrt() + context.node.real("epsilon", 0));
    result[step.count + k] = h;
  }
  return result;
}

// V' = α V + β' g, β' = 1 in the first step;  X' = X − R V', or X − R (g + α V') by Nesterov
Tensors momentum(const EvalContext& context) {
  const Step step = step_of(context, 3);
  const double alpha = context.node.real("alpha", 0.9);
  const double beta = step.taken > 0 ? context.node.real("beta", 1) : 1;
  const bool nesterov = context.node.text("mode", "standard") == "nesterov";
  Tensors result(2 * step.count);
  for (size_t k = 0; k < step.count; ++k) {
    const Tensor g = regularised(context, step, k);
    const Tensor v = alpha * entry(context, step, 2, k) + beta * g;
    result[k] = entry(context, step, 0, k) - step.rate * (nesterov ? g + alpha * v : v);
    result[step.count + k] = v;
  }
  return result;
}

// V' = α V + (1 − α) g, H' = β H + (1 − β) g²;  X' = (1 − after) (X − R' V' / (√H' + ε)), R' = R √(1 − β^T) / (1 − α^T)
Tensors adam(const EvalContext& context) {
  const Step step = step_of(context, 4);
  const double alpha = context.node.real("alpha", 0.9), beta = context.node.real("beta", 0.999);
  const auto taken = static_cast<double>(step.taken);
  const double rate =
      step.taken > 0 ? step.rate * std::sqrt(1 - std::pow(beta, taken)) / (1 - std::pow(alpha, taken)) : step.rate;
  Tensors result(3 * step.count);
  for (size_t k = 0; k < step.count; ++k) {
    const Tensor g = regularised(context, step, k);
    const Tensor v = alpha * entry(context, step, 2, k) + (1 - alpha) * g;
    const Tensor h = beta * entry(context, step, 3, k) + (1 - beta) * g.square();
    const Tensor x = entry(context, step, 0, k) - rate * v / (h.sqrt() + context.node.real("epsilon", 1e-6));
    result[k] = (1 - context.node.real("norm_coefficient_post", 0)) * x;
    result[step.count + k] = v;
    result[2 * step.count + k] = h;
  }
  return result;
}

// Every list but that of the gradients has an entry in the outputs.
template <size_t lists>
std::vector<TensorType> infer(const InferContext& context) {
  const size_t rest = context.types.size() < 2 ? 0 : context.types.size() - 2;
  if (rest == 0 || rest % lists != 0)
    throw Error(ErrorKind::format, describe(context.node), "has {} inputs, expected 2 and {} lists", rest + 2, lists);
  std::vector<TensorType> types;
  for (size_t list = 0; list < lists; ++list)
    for (size_t k = 0; k < rest / lists && list != 1; ++k) types.push_back(context.in(2 + list * (rest / lists) + k));
  return types;
}

template <size_t lists>
constexpr OpDef op(std::string_view type, std::string_view attributes, EvaluateFunction evaluate) {
  return {.type = type,
          .attributes = attributes,
          .min_inputs = 2 + lists,
          .evaluate = evaluate,
          .infer = infer<lists>,
          .cost = cost_elementwise,
          .labels = labels_frozen};
}

constexpr OpDef kOps[] = {
    op<3>("ai.onnx.preview.training.Adagrad", "decay_factor epsilon norm_coefficient", adagrad),
    op<3>("ai.onnx.preview.training.Momentum", "alpha beta mode norm_coefficient", momentum),
    op<4>("ai.onnx.preview.training.Adam", "alpha beta epsilon norm_coefficient norm_coefficient_post", adam),
};

}  // namespace optimizers
}  // namespace

std::span<const OpDef> optimizer_ops() { return optimizers::kOps; }

}  // namespace pare
