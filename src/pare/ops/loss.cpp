// Losses as operators: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss, for scores [N, C, d1…] and class numbers
// [N, d1…].
//
//   l_n = −w[y_n] · log p_n[y_n];  "mean" divides the sum of l_n by the sum of the weights w[y_n].
// Places with y_n = ignore_index have weight zero.
#include <ATen/ATen.h>

#include "pare/ops/common.h"
#include "pare/ops/dtype.h"
#include "pare/ops/families.h"

namespace pare {
namespace {
namespace loss {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// Checks that scores, targets and weights fit together.
void check(const Node& node, const Shape& scores, const Shape& target, const Shape* weight) {
  Shape expected = scores;
  if (scores.size() < 2)
    throw Error(ErrorKind::shape, describe(node), "scores are {}, expected [N, C, …]", to_string(scores));
  expected.erase(expected.begin() + 1);
  if (expected != target)
    throw Error(ErrorKind::shape, describe(node), "targets are {}, expected {}", to_string(target),
                to_string(expected));
  if (weight != nullptr && *weight != Shape{scores[1]})
    throw Error(ErrorKind::shape, describe(node), "weights are {}, expected [{}]", to_string(*weight), scores[1]);
  const std::string reduction = node.text("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    throw Error(ErrorKind::format, describe(node), "reduction is '{}'", reduction);
}

Tensor negative_log_likelihood(const EvalContext& context, const Tensor& log_p) {
  const Node& node = context.node;
  const Shape weight_dims = context.has(2) ? context.in(2).sizes().vec() : Shape{};
  check(node, log_p.sizes().vec(), context.in(1).sizes().vec(), context.has(2) ? &weight_dims : nullptr);
  Tensor y = context.in(1).to(at::kLong);
  Tensor w =
      context.has(2) ? widened(context.in(2)).to(log_p.scalar_type()) : at::ones({log_p.size(1)}, log_p.options());
  Tensor counted;
  if (node.has("ignore_index")) {
    counted = y != node.integer("ignore_index", 0);
    y = at::where(counted, y, at::zeros_like(y));
  }
  if (y.numel() > 0 && (y.min().item<int64_t>() < 0 || y.max().item<int64_t>() >= log_p.size(1)))
    throw Error(ErrorKind::format, describe(node), "a target is not among the {} classes", log_p.size(1));
  Tensor weight = w.index_select(0, y.flatten()).reshape(y.sizes());
  Tensor each = -log_p.gather(1, y.unsqueeze(1)).squeeze(1) * weight;
  if (counted.defined()) {
    weight = at::where(counted, weight, at::zeros_like(weight));
    each = at::where(counted, each, at::zeros_like(each));
  }
  const std::string reduction = node.text("reduction", "mean");
  if (reduction == "none") return each;
  return reduction == "sum" ? each.sum() : each.sum() / weight.sum();
}

Tensors nll(const EvalContext& context) {
  const Tensor& x = context.in(0);
  return {narrowed(negative_log_likelihood(context, widened(x)), x.scalar_type())};
}

Tensors softmax_cross_entropy(const EvalContext& context) {
  const Tensor& x = context.in(0);
  if (x.dim() < 2)
    throw Error(ErrorKind::shape, describe(context.node), "scores are {}, expected [N, C, …]", to_string(x.sizes()));
  const Tensor log_p = at::log_softmax(widened(x), 1);
  return {narrowed(negative_log_likelihood(context, log_p), x.scalar_type()), narrowed(log_p, x.scalar_type())};
}

std::vector<TensorType> infer(const InferContext& context) {
  const TensorType& scores = context.in(0);
  check(context.node, scores.dims, context.in(1).dims, context.has(2) ? &context.in(2).dims : nullptr);
  TensorType value{scores.dtype, {}};
  if (context.node.text("reduction", "mean") == "none") value.dims = context.in(1).dims;
  if (context.node.op == "SoftmaxCrossEntropyLoss") return {value, scores};
  return {value};
}

Cost cost(const CostContext& context) { return {.flops = 3 * context.inputs[0].count()}; }

constexpr OpDef op(std::string_view type, EvaluateFunction evaluate) {
  return {.type = type,
          .since = 12,
          .min_inputs = 2,
          .max_inputs = 3,
          .evaluate = evaluate,
          .infer = infer,
          .cost = cost,
          .labels = labels_frozen};
}

constexpr OpDef kOps[] = {op("NegativeLogLikelihoodLoss", nll).taking("ignore_index reduction"),
                          op("SoftmaxCrossEntropyLoss", softmax_cross_entropy).taking("ignore_index reduction")};

}  // namespace loss
}  // namespace

std::span<const OpDef> loss_ops() { return loss::kOps; }

}  // namespace pare
