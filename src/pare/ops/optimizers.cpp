// Steps of optimisers as operators (ai.onnx.preview.training): Adagrad, Momentum. Inputs: learning rate R, steps
// so far T, then all parameters X, their gradients G, and what is remembered of each. Outputs: the
// new X, and what is remembered now. G is regularised to g = norm_coefficient · X + G.
#include <ATen/ATen.h>

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
};

}  // namespace optimizers
}  // namespace

std::span<const OpDef> optimizer_ops() { return optimizers::kOps; }

}  // namespace pare
