// Random numbers shaped like an input: RandomNormalLike, RandomUniformLike, Bernoulli. They come from ATen's generator,
// or from one of their own when the node gives a seed.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#include "pare/ops/common.h"
#include "pare/ops/dtype.h"
#include "pare/ops/subfamilies.h"

namespace pare {
namespace {
namespace random_like {

using at::Tensor;
using Tensors = std::vector<Tensor>;

at::ScalarType dtype_of(const Node& node, at::ScalarType otherwise) {
  return node.has("dtype") ? dtype_from_onnx(node.integer("dtype", 1), node) : otherwise;
}

c10::optional<at::Generator> generator_of(const Node& node) {
  if (!node.has("seed")) return c10::nullopt;
  const double seed = node.real("seed", 0);
  if (!(std::abs(seed) < 0x1p63)) throw Error(ErrorKind::format, describe(node), "has a seed of {}", seed);
  return at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(static_cast<int64_t>(seed)));
}

Tensors normal_like(const EvalContext& context) {
  const Tensor z = at::randn(context.in(0).sizes(), generator_of(context.node), at::TensorOptions().dtype(at::kFloat));
  const Tensor y = z * context.node.real("scale", 1) + context.node.real("mean", 0);
  return {y.to(dtype_of(context.node, context.in(0).scalar_type()))};
}

Tensors uniform_like(const EvalContext& context) {
  const double low = context.node.real("low", 0);
  const Tensor u = at::rand(context.in(0).sizes(), generator_of(context.node), at::TensorOptions().dtype(at::kFloat));
  return {(u * (context.node.real("high", 1) - low) + low).to(dtype_of(context.node, context.in(0).scalar_type()))};
}

// One with the probability that the input gives, else zero.
Tensors bernoulli(const EvalContext& context) {
  const Tensor p = widened(context.in(0));
  const Tensor u = at::rand(p.sizes(), generator_of(context.node), p.options().requires_grad(false));
  return {(u < p).to(dtype_of(context.node, context.in(0).scalar_type()))};
}

std::vector<TensorType> infer(const InferContext& context) {
  return {{dtype_of(context.node, context.in(0).dtype), context.in(0).dims}};
}

constexpr OpDef op(std::string_view type, EvaluateFunction evaluate, int since) {
  return {.type = type,
          .since = since,
          .min_inputs = 1,
          .max_inputs = 1,
          .evaluate = evaluate,
          .infer = infer,
          .cost = cost_elementwise,
          .labels = labels_frozen,
          .traits = {.kind = OpKind::random}};
}

constexpr OpDef kOps[] = {
    op("RandomNormalLike", normal_like, 1).taking("dtype mean scale seed"),
    op("RandomUniformLike", uniform_like, 1).taking("dtype high low seed"),
    op("Bernoulli", bernoulli, 15).taking("dtype seed"),
};

}  // namespace random_like
}  // namespace

std::span<const OpDef> random_ops() { return random_like::kOps; }

}  // namespace pare
